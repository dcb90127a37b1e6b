package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// errReadAhead: a frame was read, and not rendered, before its namespace came to be
// covered. The watch is opened again from the cursor and brings it once more.
var errReadAhead = errors.New("a frame was read before its namespace matched")

// coverage are the namespaces that a target covers by their labels, as far as its
// own stream has come. The watch of the Namespaces and that of the objects are two
// streams without a common order: a change of one takes effect between two frames
// of the other.
type coverage struct {
	namespaces *namespaces
	// changed has a value when there may be something new, and is nil while the
	// Namespaces are not followed.
	changed chan struct{}
	// due: the Namespaces may have changed since this was brought in line with them.
	due bool
	// known: covered is what it should be, as of the revision at of the Namespaces.
	known   bool
	at      uint64
	covered nameSet
	// seen is the place in the view of the Namespaces that covered is in line with, 0 if
	// all names are to be compared.
	seen uint64
	// leaving are no longer covered, but the stream has not yet passed the revision
	// at which that was found out.
	leaving map[string]departure
	// listed are the revisions of the lists that new namespaces began with: up to
	// there their frames bring nothing new.
	listed map[string]uint64
	// skipped are those of them whose frames may tell of states that such a list was
	// ahead of, with the revision from which on they would have been told.
	skipped map[string]uint64
	// leftOut are frames of namespaces that were not covered.
	leftOut leftOut
	// declared is the last gap that was made by namespaces that came to match.
	declared event.GapInfo
	// began is the revision at which the target began with a mark, 0 if it did not;
	// beganWith are the namespaces that matched then.
	began     uint64
	beganWith map[string]struct{}
	// ahead is a revision that the log does not reach beyond at the start of the target:
	// it may be behind the cursor.
	ahead uint64
	// apart: the Namespaces are in another store, so that their revisions and those of
	// frames do not compare. Resumed: it continues from a checkpoint.
	apart, resumed bool
	// turning are those of which the log may hold more or less than what at says;
	// doubtful those of which a process before this one said so.
	turning, doubtful map[string]struct{}
}

// departure is how a namespace stops to be covered. Until is the revision that the
// stream has to pass, 0 if it is not known yet; cause is that of the Namespace.
// Told is up to where an arrival told of it that was broken off, if one was.
type departure struct{ until, cause, told uint64 }

// leave ends the following of the Namespaces.
func (c *coverage) leave() {
	if c.changed != nil {
		c.namespaces.leave(c.changed)
	}
}

// turningNow is what a mark has to say of the namespaces that are on their way.
func (c *coverage) turningNow() string {
	all := make(map[string]struct{})
	maps.Copy(all, c.turning)
	maps.Copy(all, c.doubtful)
	for name := range c.leaving {
		all[name] = struct{}{}
	}
	for name := range c.listed {
		all[name] = struct{}{}
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ",")
}

// formerHash is the hash of the names in marks of earlier versions.
func formerHash(names *nameSet) uint64 {
	h := fnv.New64a()
	for _, name := range slices.Sorted(names.all()) {
		_, _ = io.WriteString(h, name+",") // a hash takes everything
	}
	return h.Sum64()
}

// publish shows the filter what is covered now.
func (t *target) publish() {
	c := &t.coverage
	t.filter.labelled.Store(&labelled{covered: c.covered, leaving: maps.Clone(c.leaving)})
}

// trouble says why the Namespaces are not followed at the moment, nil if they are or
// need not be.
func (c *coverage) trouble() error {
	if c.changed == nil {
		return nil
	}
	return c.namespaces.trouble()
}

// lookAtNamespaces returns how the namespaces that should be covered differ from those that are, see
// namespaces.look.
func (t *target) lookAtNamespaces() (*viewed, error) {
	c := &t.coverage
	return c.namespaces.look(t.spec.viewKey(), c.covered, c.seen)
}

// awaitNamespaces waits for the first list of the Namespaces and decides with which
// of them covered the target begins: with those that are now, or, if it goes on from
// a mark, with those that were then, so that what has changed since comes out.
func (t *target) awaitNamespaces(ctx context.Context) error {
	c := &t.coverage
	if c.changed == nil {
		selector, err := labels.Parse(t.spec.namespaceSelector)
		if err != nil {
			return fmt.Errorf("%w: namespace selector: %w", errUnusable, err)
		}
		c.changed = c.namespaces.join(t.timing, t.spec.viewKey(), selector, newFilter(t.spec).named)
	}
	c.seen = 0
	now, err := c.namespaces.begin(t.spec.viewKey())
	switch {
	case err != nil:
		return fmt.Errorf("namespaceSelector: %w", err)
	case now == nil:
		t.setState(Syncing, "waiting for the first list of namespaces")
		return t.stand(ctx)
	}
	if err := t.findStores(ctx); err != nil {
		return err
	}
	c.covered, c.at = now.matching, now.at
	c.leaving, c.listed = make(map[string]departure), make(map[string]uint64)
	c.turning, c.doubtful = make(map[string]struct{}), make(map[string]struct{})
	c.skipped = make(map[string]uint64)
	c.due = true
	for e := range t.index.All() {
		c.ahead = max(c.ahead, e.RV)
	}
	for _, rv := range t.ended {
		c.ahead = max(c.ahead, rv)
	}
	if err := t.goOnWith(ctx, &now.matching); err != nil {
		return err
	}
	if c.known = true; c.covered.equals(&now.matching) {
		c.seen = now.seq
	}
	t.publish()
	return nil
}

// stand waits until there may be something new.
func (t *target) stand(ctx context.Context) error {
	t.endOpening()
	for {
		t.status.beatNow()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.coverage.changed:
			return nil
		case <-time.After(t.timing.Tick):
		}
	}
}

// goOnWith makes the coverage what it was at the mark, if there is one that counts.
func (t *target) goOnWith(ctx context.Context, now *nameSet) error {
	c, m := &t.coverage, t.marked
	if !m.Synced || m.NamespacesAt == 0 || t.lost != nil && t.lost.reason == reasonSelection {
		return nil
	}
	for name := range strings.SplitSeq(m.Turning, ",") {
		if name != "" {
			c.doubtful[name] = struct{}{}
		}
	}
	if c.at < m.NamespacesAt {
		// The storage went back: revisions do not compare, and the first look at the
		// target's own finds out.
		clear(c.doubtful)
		return nil
	}
	c.leftOut.forget(m.RV)
	c.resumed = c.apart
	if known, err := t.coveredThen(ctx, m); err != nil || !known {
		return err
	}
	for name := range c.doubtful {
		c.covered = c.covered.without(name)
		if !now.has(name) {
			c.leaving[name] = departure{}
		}
	}
	t.siftNamespaces()
	return nil
}

// coveredThen makes covered what it was at a mark; false if that cannot be told any more.
func (t *target) coveredThen(ctx context.Context, m mark) (bool, error) {
	c := &t.coverage
	same, newest := m.Namespaces == c.covered.hash() || m.Namespaces == formerHash(&c.covered), c.at
	if !same {
		then, err := t.matchingAt(ctx, m.NamespacesAt)
		if listwatch.Expired(err) || listwatch.Unsupported(err) {
			clear(c.doubtful)
			if t.lost == nil {
				t.distrust(reasonSelection)
			}
			return false, nil
		}
		if err != nil {
			return false, err
		}
		c.covered, c.at = nameSetOf(maps.Keys(then)), m.NamespacesAt
	}
	if same && len(c.doubtful) == 0 || c.apart || m.NamespacesAt >= m.RV || m.RV > newest {
		return true, nil
	}
	return true, t.beginWith(ctx, m.RV)
}

// matchingAt returns the namespaces that should have been covered at a revision.
func (t *target) matchingAt(ctx context.Context, rv uint64) (map[string]struct{}, error) {
	selector, err := labels.Parse(t.spec.namespaceSelector)
	if err != nil {
		return nil, fmt.Errorf("%w: namespace selector: %w", errUnusable, err)
	}
	return t.coverage.namespaces.matchingAt(ctx, rv, selector, t.filter.named)
}

// beginWith finds out which namespaces matched at the revision at which the target
// goes on: of those that did, and were not covered yet, the process before this one
// may have left something out.
func (t *target) beginWith(ctx context.Context, rv uint64) error {
	matched, err := t.matchingAt(ctx, rv)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		return nil // any of them may have
	}
	if err == nil {
		t.coverage.began, t.coverage.beganWith = rv, matched
	}
	return err
}

// notYet returns a revision at which a namespace did not match that turned so.
func (c *coverage) notYet(namespace string, when turned) uint64 {
	after := max(when.after, c.at)
	if _, matched := c.beganWith[namespace]; !matched {
		after = max(after, c.began)
	}
	return after
}

// forget lets go of the revisions that it compares with frames: those that come are of
// another history.
func (c *coverage) forget() {
	clear(c.listed)
	clear(c.skipped)
	c.leftOut.forget(0)
	c.began, c.ahead, c.declared = 0, 0, event.GapInfo{}
	for namespace, d := range c.leaving {
		d.until = 0
		c.leaving[namespace] = d
	}
}
