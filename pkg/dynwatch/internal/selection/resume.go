package selection

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// ErrForgotten says that the namespaces which matched at a mark are not known any more.
var ErrForgotten = errors.New("the namespaces that matched are not known any more")

// Mark is what a checkpoint has of a coverage.
type Mark struct {
	// Hash is that of the names that are covered by label, At a revision of the Namespaces at
	// which they were.
	Hash uint64 `json:"namespaces,omitempty"`
	At   uint64 `json:"namespacesAt,omitempty"`
	// Turning lists those, joined by commas, of which the log may hold more, or less, than
	// that says.
	Turning string `json:"turning,omitempty"`
}

// Mark returns what a checkpoint has to say.
func (c *Coverage) Mark() Mark {
	all := make(map[string]struct{})
	maps.Copy(all, c.turning)
	maps.Copy(all, c.candidates)
	for name := range c.leaving {
		all[name] = struct{}{}
	}
	for name := range c.listed {
		all[name] = struct{}{}
	}
	return Mark{c.covered.hash(), c.at, strings.Join(slices.Sorted(maps.Keys(all)), ",")}
}

// formerHash is the hash of the names in marks of earlier versions.
func formerHash(names *nameSet) uint64 {
	h := fnv.New64a()
	for _, name := range slices.Sorted(names.all()) {
		_, _ = io.WriteString(h, name+",") // a hash takes everything
	}
	return h.Sum64()
}

// Await returns the namespaces that match now. It returns nil if there has been no list yet,
// and why.
func (c *Coverage) Await(tm listwatch.Timing) (*Viewed, error) {
	if c.Changed == nil {
		c.Changed = c.Namespaces.join(tm, c.rule)
	}
	c.seen = 0
	return c.Namespaces.begin(c.rule)
}

// Begin covers the namespaces that match now. Ahead is the newest revision in the log.
func (c *Coverage) Begin(now *Viewed, ahead uint64) {
	c.covered = now.matching
	c.moveTo(now)
	c.leaving, c.listed = make(map[string]Departure), make(map[string]uint64)
	c.turning, c.candidates = make(map[string]struct{}), make(map[string]struct{})
	c.skipped = make(map[string]uint64)
	c.Due, c.ahead = true, max(c.ahead, ahead)
}

// Begun notes that the coverage is known, and shows it to the filter.
func (c *Coverage) Begun(now *Viewed) {
	if c.Known = true; c.covered.equals(&now.matching) {
		c.seen = now.seq
	}
	c.publish()
}

// Resume covers the namespaces that matched at a mark, of a stream that was at rv, if revisions
// compare with the mark. It returns ErrForgotten if etcd has compacted it, or was restored to an
// older state that the objects do not show.
func (c *Coverage) Resume(ctx context.Context, m Mark, rv uint64) error {
	if c.at < m.At {
		// The Namespaces were restored to an older state. A rollback is found with the objects only
		// if they are in the same store, and their position is past its head.
		if c.Apart || rv <= c.at {
			return ErrForgotten
		}
		return nil
	}
	for name := range strings.SplitSeq(m.Turning, ",") {
		if name != "" {
			c.candidates[name] = struct{}{}
		}
	}
	c.leftOut.forget(rv)
	c.resumed = c.Apart
	if err := c.coverThen(ctx, m, rv); err != nil {
		return err
	}
	for name := range c.candidates {
		c.covered = c.covered.without(name)
		// If it does not match any more by the time that the target looks at it, it leaves: the log may
		// have some of its objects.
		c.leaving[name] = Departure{MissingAfter: c.missingAfter(name, m, rv)}
	}
	return nil
}

// missingAfter returns after which revision the log may lack events of a namespace that was on its way
// at a mark. The process before this one may have died when some of the objects had entered. Or the
// namespace has matched since for a while: the watch shows its new objects, and not those that are as
// they were. It is 0 if the Namespace has not changed since the mark.
func (c *Coverage) missingAfter(namespace string, m Mark, rv uint64) uint64 {
	switch {
	case c.Apart:
		return rv
	case c.Namespaces.Since(namespace) <= m.At:
		return 0
	default:
		return m.At
	}
}

// coverThen makes covered what it was at a mark.
func (c *Coverage) coverThen(ctx context.Context, m Mark, rv uint64) error {
	same, newest := m.Hash == c.covered.hash() || m.Hash == formerHash(&c.covered), c.at
	if !same {
		then, err := c.Namespaces.matchingAt(ctx, m.At, c.rule)
		if listwatch.Expired(err) || listwatch.Unsupported(err) {
			clear(c.candidates)
			return ErrForgotten
		}
		if err != nil {
			return err
		}
		c.covered, c.at, c.passed = nameSetOf(maps.Keys(then)), m.At, m.At
	}
	if same && len(c.candidates) == 0 || c.Apart || m.At >= rv || rv > newest {
		return nil
	}
	// Of the namespaces that matched at the stream's revision, and were not covered yet, the
	// process before this one may have left something out.
	matched, err := c.Namespaces.matchingAt(ctx, rv, c.rule)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		return nil // any of them may have
	}
	if err == nil {
		c.began, c.beganWith = rv, matched
	}
	return err
}
