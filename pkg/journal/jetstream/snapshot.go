package jetstream

import (
	"context"
	"fmt"
	"slices"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// snapshot gives a new sink the state of all objects as of the sequence end: the
// last message of every subject up to there, unless that is the end of an object.
// What changes meanwhile has a higher sequence and follows as it is.
//
// Only the last entry has a sequence, so that a sink that breaks off begins anew.
// It may then know objects that are gone meanwhile: the ends since the first
// attempt come first.
type snapshot struct {
	cursor *cursor
	since  uint64 // the end of the first attempt
	end    uint64

	pull   *puller
	ended  bool   // the ends are through
	passed uint64 // everything up to here was read, of the ends or of the objects
	gone   uint64 // sequences that were jumped over while looking for ends
	synced []journal.Entry
	held   []journal.Entry // the newest entry: it may be the last
}

func newSnapshot(c *cursor, end, since uint64) *snapshot {
	s := &snapshot{cursor: c, since: since, end: end, passed: since}
	if since >= end {
		s.ended, s.passed = true, 0
	}
	return s
}

func (s *snapshot) close(ctx context.Context) {
	if s.pull != nil {
		s.pull.close(ctx)
		s.pull = nil
	}
}

// fill implements [source].
func (s *snapshot) fill(ctx context.Context) (entries []journal.Entry, done bool, err error) {
	if s.end == 0 {
		return nil, true, nil
	}
	if err := s.open(ctx); err != nil {
		return nil, false, err
	}
	found, err := s.pull.next(ctx)
	if err != nil {
		s.close(ctx)
		return nil, false, err
	}
	through := len(found) == 0 || s.pull.pending == 0
	if n := slices.IndexFunc(found, func(m message) bool { return m.seq > s.end }); n >= 0 {
		found, through = found[:n], true
	}
	if s.ended {
		entries, err = s.objects(ctx, found)
	} else {
		entries, err = s.ends(ctx, found)
	}
	if err != nil {
		s.close(ctx)
		return nil, false, err
	}
	entries = append(s.held, entries...)
	s.held = nil
	if !through {
		return s.holdLast(entries), false, nil
	}
	s.close(ctx)
	if s.ended {
		return s.finish(append(entries, s.synced...)), true, nil
	}
	if s.passed < s.end {
		s.gone += s.end - s.passed
		s.cursor.jump(s.passed + 1)
	}
	if s.gone > 0 {
		entries = append(entries, s.cursor.trimmed(s.since+1, s.end, s.gone))
	}
	s.ended, s.passed = true, 0
	return s.holdLast(entries), false, nil
}

// ends picks the ends of objects. What is missing may have been some, too.
func (s *snapshot) ends(ctx context.Context, found []message) (entries []journal.Entry, err error) {
	decoded := make([]*event.Event, len(found))
	for i, m := range found {
		if !event.Op(m.Header.Get(headerOp)).Ends() {
			continue
		}
		e, ok, err := s.cursor.journal.decode(ctx, m)
		if err != nil {
			return nil, err
		}
		if ok {
			decoded[i] = &e
		}
	}
	for i, m := range found {
		if m.seq > s.passed+1 {
			s.gone += m.seq - s.passed - 1
			s.cursor.jump(s.passed + 1)
		}
		s.passed = m.seq
		if e := decoded[i]; e != nil && s.cursor.admit(m.seq, true, copyOf(m)) {
			entries = append(entries, journal.Entry{Event: *e})
		}
	}
	return entries, nil
}

// objects turns the last messages of objects that exist into their snapshot, and
// sets aside what says that a target's snapshot is complete.
func (s *snapshot) objects(ctx context.Context, found []message) (entries []journal.Entry, err error) {
	passed, synced := s.passed, s.synced
	for _, m := range found {
		if m.seq <= passed {
			continue // read before the connection was lost
		}
		passed = m.seq
		e, ok, err := s.cursor.journal.decode(ctx, m)
		switch {
		case err != nil:
			return nil, err
		case !ok || e.Op == event.Gap || e.Op == event.State || e.Op.Ends():
		case e.Op == event.Synced:
			synced = append(synced, journal.Entry{Event: e})
		default:
			e.Op, e.Replay = event.Snapshot, false
			entries = append(entries, journal.Entry{Event: e})
		}
	}
	s.passed, s.synced = passed, synced
	return entries, nil
}

// open makes the puller for what is to be read now, if there is none.
func (s *snapshot) open(ctx context.Context) (err error) {
	if s.pull != nil {
		return nil
	}
	what := scan{stream: s.cursor.journal.stream, policy: js.DeliverLastPerSubjectPolicy, batch: snapshotBatch}
	if s.ended {
		what.filters = []string{s.cursor.journal.config.root() + ".>"}
	} else {
		what.policy, what.from, what.batch, what.bytes = js.DeliverByStartSequencePolicy, s.passed+1, readBatch, readBytes
	}
	if s.pull, err = s.cursor.journal.pull(ctx, what); err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	return nil
}

// holdLast keeps the last entry back.
func (s *snapshot) holdLast(entries []journal.Entry) []journal.Entry {
	if len(entries) == 0 {
		return nil
	}
	n := len(entries) - 1
	s.held = []journal.Entry{entries[n]}
	return entries[:n]
}

// finish gives the last entry the snapshot's sequence.
func (s *snapshot) finish(entries []journal.Entry) []journal.Entry {
	if len(entries) > 0 {
		entries[len(entries)-1].Seq = s.end
		return entries
	}
	// Nothing to deliver is delivered at once. The sequence is in the log.
	c := s.cursor
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.Last, c.record.Snapshot, c.record.Since = s.end, false, 0
	signal(c.journal.dirty)
	return nil
}

// snapshotBatch bounds a pull of a snapshot. A bound in bytes would lose objects:
// where a message does not fit into what is left of it, nats-server (2.15) goes on
// behind that message if the consumer delivers the last per subject.
const snapshotBatch = 32
