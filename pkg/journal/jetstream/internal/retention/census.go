package retention

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/eventlog"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
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

// span is a snapshot, from its begin event to its synced event.
type span struct{ run, from, to uint64 }

// shown is the event of a subject that a snapshot needs.
type shown struct {
	in  *span
	seq uint64
}

// Census counts the bytes of the namespaces in the stream, up to the sequence end. It takes
// some 80 bytes for each subject.
type Census struct {
	log    *eventlog.Log
	root   string // the subject prefix with the cluster
	end    uint64
	passed uint64 // by every sink
	All    []usage
	index  map[string]int // in all, by namespace
	last   map[uint64]lastOf
	// snapshots are those that a sink has not passed, by target.
	snapshots map[string][]*span
	// kept has, by subject, the last event in the first of these snapshots.
	kept map[uint64]shown
}

// NewCensus returns a census that has counted nothing. Every sink has passed a sequence.
func NewCensus(log *eventlog.Log, root string, passed uint64) *Census {
	return &Census{
		log: log, root: root, end: log.Tail.End(), passed: passed, index: map[string]int{}, last: map[uint64]lastOf{},
		kept: map[uint64]shown{},
	}
}

// Count reads the headers of all messages.
func (c *Census) Count(ctx context.Context) error {
	if err := c.findSnapshots(ctx); err != nil {
		return fmt.Errorf("find snapshots: %w", err)
	}
	return c.log.Stream.EachHeader(ctx, c.end, nil, func(m scan.Message) (bool, error) {
		namespace, _ := c.namespaceOf(m)
		at, ok := c.index[namespace]
		if !ok {
			at = len(c.All)
			c.index[namespace] = at
			c.All = append(c.All, usage{Namespace: namespace})
		}
		u, size, subject := &c.All[at], storedSize(m), c.log.Subjects.Hash(m.Subject)
		u.Bytes += uint64(size)
		if namespace == "" {
			u.states += uint64(size)
			return true, nil
		}
		u.states += uint64(size) - uint64(c.last[subject].size)
		c.last[subject] = lastOf{seq: m.Seq, size: size}
		c.noteShown(m, subject)
		return true, nil
	})
}

// findSnapshots reads the headers of all begin and synced events.
func (c *Census) findSnapshots(ctx context.Context) error {
	c.snapshots = map[string][]*span{}
	err := c.log.Stream.EachHeader(ctx, c.end, message.BoundSubjects(c.root), func(m scan.Message) (bool, error) {
		if e, err := message.Parse(m.Header); err == nil {
			c.noteBound(&e, m.Seq)
		}
		return true, nil
	})
	maps.DeleteFunc(c.snapshots, func(target string, all []*span) bool {
		all = slices.DeleteFunc(all, func(s *span) bool { return s.to <= c.passed })
		c.snapshots[target] = all
		return len(all) == 0
	})
	return err
}

// noteBound notes a begin or synced event. A new begin event of a target replaces a snapshot
// without a synced event: informd makes one snapshot of a target at a time, so the older one
// stays incomplete, and a consumer removes nothing because of it.
func (c *Census) noteBound(e *event.Event, seq uint64) {
	all := c.snapshots[e.Target]
	last := &span{}
	if len(all) > 0 {
		last = all[len(all)-1]
	}
	open := last.to == math.MaxUint64
	switch {
	case e.Op == event.Begin && open && last.run == e.Run: // a repetition
	case e.Op == event.Begin && open:
		*last = span{e.Run, seq, math.MaxUint64}
	case e.Op == event.Begin:
		all = append(all, &span{e.Run, seq, math.MaxUint64})
	case open:
		last.to = seq
	default: // the history limit has removed its begin event
		all = append(all, &span{e.Run, last.to, seq})
	}
	c.snapshots[e.Target] = all
}

// noteShown notes the last event of a subject in a snapshot, of those that count: events of the
// snapshot's run, and events without a run. At the synced event a consumer removes the
// objects that had none of these. A purge removes all of a subject up to a sequence, so only
// the first snapshot with the subject matters.
func (c *Census) noteShown(m scan.Message, subject uint64) {
	if len(c.snapshots) == 0 || m.Seq <= c.passed {
		return
	}
	e, err := message.Parse(m.Header)
	if err != nil {
		return // no sink gets it
	}
	for _, s := range c.snapshots[e.Target] {
		if m.Seq < s.from || m.Seq > s.to || e.Run != 0 && e.Run != s.run {
			continue
		}
		if first, is := c.kept[subject]; !is || first.in == s {
			c.kept[subject] = shown{in: s, seq: m.Seq}
		}
		return
	}
}

// keeps reports whether a message stays: the last of its subject, and messages from the one
// on that a snapshot needs.
func (c *Census) keeps(m scan.Message) bool {
	subject := c.log.Subjects.Hash(m.Subject)
	first, is := c.kept[subject]
	return m.Seq >= c.last[subject].seq || is && m.Seq >= first.seq
}

// cut is where the events that are removed of a subject end.
type cut struct {
	below  uint64 // this sequence
	at     int    // its namespace's place in census.all
	unread uint64 // how many events a sink has not passed
}

// drop removes the oldest superseded events of the namespaces with an excess. It returns how
// many of each namespace were removed that a sink has not passed.
func (c *Census) drop(ctx context.Context, purge func(ctx context.Context, subject string, seq uint64) error) (lost map[string]uint64, err error) {
	lost = map[string]uint64{}
	cuts := map[string]cut{}
	flush := func() error {
		for subject, of := range cuts {
			if err := purge(ctx, subject, of.below); err != nil {
				return err
			}
			lost[c.All[of.at].Namespace] += of.unread
		}
		clear(cuts)
		return nil
	}
	filters, left := c.excessive()
	err = c.log.Stream.EachHeader(ctx, c.end, filters, func(m scan.Message) (bool, error) {
		namespace, object := c.namespaceOf(m)
		at, known := c.index[namespace]
		if !object || !known || c.All[at].excess == 0 || c.keeps(m) {
			return left > 0, nil
		}
		u, of := &c.All[at], cuts[m.Subject]
		if u.excess -= min(u.excess, uint64(storedSize(m))); u.excess == 0 {
			left--
		}
		of.below, of.at = m.Seq+1, at
		if m.Seq > c.passed {
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
func (c *Census) excessive() (filters []string, n int) {
	for i := range c.All {
		if c.All[i].excess == 0 {
			continue
		}
		if n++; n <= maxFilters {
			filters = append(filters, c.root+".*.*."+c.All[i].Namespace+".*")
		}
	}
	if n > maxFilters {
		return nil, n
	}
	return filters, n
}

// namespaceOf returns the token of the namespace that a message counts for, "" for control
// events, and whether the message is an event of an object. The copy of a deletion counts for
// the namespace of its object.
func (c *Census) namespaceOf(m scan.Message) (token string, object bool) {
	tokens := strings.Split(strings.TrimPrefix(m.Subject, c.root+"."), ".")
	switch {
	case strings.ContainsAny(m.Subject, "*>"):
		return "", false // not informd's, and as a filter it would match others
	case len(tokens) == 4 && tokens[0] != "_informd":
		return tokens[2], true
	case message.CopyOf(m) == 0:
		return "", false
	}
	e, err := message.Parse(m.Header)
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
func storedSize(m scan.Message) uint32 {
	size := len(m.Subject) + message.HeadersRoom + storedOverhead
	for name, values := range m.Header {
		for _, value := range values {
			if name != headerSize {
				size += len(name) + len(value) + message.HeaderRoom
			}
		}
	}
	body, err := strconv.ParseUint(m.Value(headerSize), 10, 31)
	if err != nil {
		body = 0
	}
	return uint32(min(uint64(size)+body, math.MaxUint32))
}
