package jetstream

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
)

const (
	// maxFilters bounds the namespaces that the second scan names. With more it reads all.
	maxFilters = 64
	// maxCuts bounds the subjects that are collected before their events are removed.
	maxCuts = 10_000
)

// lastOf is the last message of a subject.
type lastOf struct {
	seq  uint64
	size uint32
}

// span is from the beginning of a snapshot to its end.
type span struct{ from, to uint64 }

// census counts the bytes of the namespaces in the stream, up to the sequence end. It takes
// some 40 bytes for each subject.
type census struct {
	journal *Journal
	end     uint64
	passed  uint64 // by every sink
	all     []usage
	index   map[string]int // in all, by namespace
	last    map[uint64]lastOf
	// snapshots are those that a sink has not passed, by target, and kept the subjects that
	// have an event in one.
	snapshots map[string][]span
	kept      map[uint64]struct{}
}

// count reads the headers of all messages.
func (c *census) count(ctx context.Context) error {
	return c.each(ctx, nil, func(m message) (bool, error) {
		namespace, _ := c.journal.config.namespaceOf(m)
		at, ok := c.index[namespace]
		if !ok {
			at = len(c.all)
			c.index[namespace] = at
			c.all = append(c.all, usage{namespace: namespace})
		}
		u, size, subject := &c.all[at], storedSize(m), c.journal.heads.hash(m.Subject)
		u.bytes += uint64(size)
		if namespace == "" {
			u.states += uint64(size)
			c.noteBound(m)
			return true, nil
		}
		u.states += uint64(size) - uint64(c.last[subject].size)
		c.last[subject] = lastOf{seq: m.seq, size: size}
		return true, nil
	})
}

// noteBound notes the beginning or the end of a snapshot. One that has not ended lasts.
func (c *census) noteBound(m message) {
	e, err := parse(m.Header)
	if err != nil || !e.Op.Bounds() {
		return
	}
	all := c.snapshots[e.Target]
	switch last := len(all) - 1; {
	case e.Op == event.Begin:
		all = append(all, span{m.seq, math.MaxUint64})
	case last < 0: // its beginning is gone
		all = append(all, span{0, m.seq})
	default:
		all[last].to = m.seq
	}
	c.snapshots[e.Target] = slices.DeleteFunc(all, func(s span) bool { return s.to <= c.passed })
}

// keeps reports whether an event is in a snapshot, or behind one of its subject that is: a
// purge would take both.
func (c *census) keeps(m message) bool {
	subject := c.journal.heads.hash(m.Subject)
	if _, is := c.kept[subject]; is {
		return true
	}
	if len(c.snapshots) == 0 {
		return false
	}
	e, err := parse(m.Header)
	if err == nil && !slices.ContainsFunc(c.snapshots[e.Target], func(s span) bool { return s.from < m.seq && m.seq < s.to }) {
		return false
	}
	c.kept[subject] = struct{}{}
	return true
}

// cut is where the events that are removed of a subject end.
type cut struct {
	below  uint64 // this sequence
	at     int    // its namespace's place in census.all
	unread uint64 // how many events a sink has not passed
}

// drop removes the oldest superseded events of the namespaces with an excess. It returns how
// many of each namespace were removed that a sink has not passed.
func (c *census) drop(ctx context.Context, purge func(ctx context.Context, subject string, seq uint64) error) (lost map[string]uint64, err error) {
	lost = map[string]uint64{}
	cuts := map[string]cut{}
	flush := func() error {
		for subject, of := range cuts {
			if err := purge(ctx, subject, of.below); err != nil {
				return err
			}
			lost[c.all[of.at].namespace] += of.unread
		}
		clear(cuts)
		return nil
	}
	filters, left := c.excessive()
	err = c.each(ctx, filters, func(m message) (bool, error) {
		namespace, object := c.journal.config.namespaceOf(m)
		at, known := c.index[namespace]
		if !object || !known || c.all[at].excess == 0 || m.seq >= c.last[c.journal.heads.hash(m.Subject)].seq || c.keeps(m) {
			return left > 0, nil
		}
		u, of := &c.all[at], cuts[m.Subject]
		if u.excess -= min(u.excess, uint64(storedSize(m))); u.excess == 0 {
			left--
		}
		of.below, of.at = m.seq+1, at
		if m.seq > c.passed {
			of.unread++
		}
		if cuts[m.Subject] = of; len(cuts) < maxCuts {
			return left > 0, nil
		}
		return left > 0, flush()
	})
	if err == nil {
		err = flush()
	}
	return lost, err
}

// excessive returns the filters of the namespaces with an excess, none if they are many, and
// how many they are.
func (c *census) excessive() (filters []string, n int) {
	for i := range c.all {
		if c.all[i].excess == 0 {
			continue
		}
		if n++; n <= maxFilters {
			filters = append(filters, c.journal.config.root()+".*.*."+c.all[i].namespace+".*")
		}
	}
	if n > maxFilters {
		return nil, n
	}
	return filters, n
}

// each calls do with the headers of every message up to the end, until it returns false.
func (c *census) each(ctx context.Context, filters []string, do func(m message) (bool, error)) error {
	if c.end == 0 {
		return nil
	}
	p, err := c.journal.pull(ctx, scan{
		stream: c.journal.stream, policy: js.DeliverAllPolicy, to: c.end, filters: filters, headers: true, batch: scanBatch,
	})
	if err != nil {
		return err
	}
	defer p.close(ctx)
	for {
		found, err := p.next(ctx)
		if err != nil {
			return err
		}
		for _, m := range found {
			if more, err := do(m); err != nil || !more {
				return err
			}
		}
		if p.over {
			return nil
		}
	}
}

// namespaceOf returns the token of the namespace that a message counts for, "" for control
// events, and whether the message is an event of an object. The copy of a deletion counts for
// the namespace of its object.
func (c *Config) namespaceOf(m message) (token string, object bool) {
	tokens := strings.Split(strings.TrimPrefix(m.Subject, c.root()+"."), ".")
	switch {
	case strings.ContainsAny(m.Subject, "*>"):
		return "", false // not informd's, and as a filter it would match others
	case len(tokens) == 4 && tokens[0] != "_informd":
		return tokens[2], true
	case copyOf(m) == 0:
		return "", false
	}
	e, err := parse(m.Header)
	switch {
	case err != nil:
		return "", false
	case e.Namespace == "":
		return clusterScoped, false
	}
	return event.EscapeToken(e.Namespace), false
}

// What a message takes on the server beside its subject, headers and body, and the header
// with the size of a body that was left out.
const (
	storedOverhead = 34
	headerSize     = "Nats-Msg-Size"
)

// storedSize is how many bytes of the stream's limit a message takes, of which the body was
// left out.
func storedSize(m message) uint32 {
	size := len(m.Subject) + headersRoom + storedOverhead
	for name, values := range m.Header {
		for _, value := range values {
			if name != headerSize {
				size += len(name) + len(value) + headerRoom
			}
		}
	}
	body, err := strconv.ParseUint(m.header(headerSize), 10, 31)
	if err != nil {
		body = 0
	}
	return uint32(min(uint64(size)+body, math.MaxUint32))
}
