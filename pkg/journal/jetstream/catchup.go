package jetstream

import (
	"context"
	"fmt"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
)

// The bounds of what a cursor that is behind has in flight.
const (
	readBatch = 256
	readBytes = 1 << 20
)

// catchup reads the stream until the tail is reached. It counts the sequences that
// it does not get: the history limit or a share of the space (share.go) has removed those
// events, and each of them is declared by a gap event ahead of what follows. What the
// janitor removes otherwise does not count: every cursor had passed it. Ends that are
// missing count, and follow as copies.
type catchup struct {
	cursor *cursor
	pull   *scan.Puller
	passed uint64 // everything up to here was returned or is gone

	begun    bool
	missing  uint64 // sequences that were jumped over
	declared uint64 // of them, or of those to come, in gap events
	until    uint64 // the stream is read up to here at least: what is missing was declared ahead, or is a snapshot's
}

func newCatchup(c *cursor, from uint64) *catchup { return &catchup{cursor: c, passed: from - 1} }

func (s *catchup) close(ctx context.Context) {
	if s.pull != nil {
		s.pull.Close(ctx)
		s.pull = nil
	}
}

// fill implements [source].
func (s *catchup) fill(ctx context.Context) (entries []journal.Entry, done bool, err error) {
	j := s.cursor.journal
	// What the log had before the pull, the pull finds, unless it is gone for good.
	goal := j.tail.End()
	opened, err := s.open(ctx)
	if err != nil {
		return nil, false, err
	}
	found, err := s.pull.Next(ctx)
	if err == nil && s.pull.Over {
		err = j.stream.Reaches(ctx, goal, s.pull.Last)
	}
	if err != nil {
		s.close(ctx)
		return nil, false, err
	}
	decoded, err := s.decode(ctx, found)
	if err != nil {
		s.close(ctx) // it has gone on; another one begins behind passed
		return nil, false, err
	}
	entries = make([]journal.Entry, 1, len(found)+1) // the first is for a gap
	from, passed, missing := s.passed+1, s.passed, s.missing
	for i, m := range found {
		if m.Seq > passed+1 {
			missing += m.Seq - passed - 1
			s.cursor.jump(passed + 1)
		}
		passed = m.Seq
		if e := decoded[i]; e != nil && s.cursor.admit(m.Seq, e.Op, copyOf(m)) {
			entries = append(entries, journal.Entry{Seq: m.Seq, Event: *e})
		}
	}
	end := s.pull.Over
	if end && goal > passed {
		missing += goal - passed
		s.cursor.jump(passed + 1)
		passed = goal
	}
	// The tail may still have what was declared as missing: not before until.
	end = end || passed >= s.until && j.tail.Holds(passed+1)
	if len(found) > 0 {
		s.cursor.readStream(passed, found[0].Time)
	}
	s.passed, s.missing = passed, missing
	s.cursor.passed(passed)
	if gap, ok := s.gap(from, passed, goal, opened); ok {
		entries[0] = gap
	} else {
		entries = entries[1:]
	}
	return entries, end, nil
}

// decode reads the events from messages; nil stands for what is none.
func (s *catchup) decode(ctx context.Context, found []scan.Message) ([]*event.Event, error) {
	decoded := make([]*event.Event, len(found))
	for i, m := range found {
		e, ok, err := s.cursor.journal.messages.Decode(ctx, m)
		if err != nil {
			return nil, err
		}
		if ok {
			decoded[i] = &e
		}
	}
	return decoded, nil
}

// open makes the puller if there is none. It returns how many of the sequences up
// to the goal were missing when it began, the first time: it may be more by now, and
// was a few less if they were counted while messages were removed.
func (s *catchup) open(ctx context.Context) (missing uint64, err error) {
	if s.pull != nil {
		return 0, nil
	}
	j := s.cursor.journal
	end := j.tail.End()
	s.pull, err = j.stream.Pull(ctx, scan.Scan{Policy: js.DeliverByStartSequencePolicy, From: s.passed + 1, Batch: readBatch, Bytes: readBytes})
	if err != nil {
		return 0, fmt.Errorf("read from %d: %w", s.passed+1, err)
	}
	// A copy that is a moment behind counts too little, and would declare what it gets yet.
	if stored := end - min(end, s.passed); !s.begun && !j.stream.Replicated() && stored > s.pull.Pending {
		missing, s.until = stored-s.pull.Pending, max(s.until, end)
	}
	s.begun = true
	return missing, nil
}

// gap returns the gap event for what is missing and not declared. The first one
// declares all that is known to be missing up to goal, the others what was removed
// later.
func (s *catchup) gap(from, passed, goal, opened uint64) (journal.Entry, bool) {
	missing, to := s.missing, passed
	if opened > missing {
		missing, to = opened, max(goal, passed)
	}
	if missing <= s.declared {
		return journal.Entry{}, false
	}
	count := missing - s.declared
	s.declared = missing
	s.cursor.journal.logger.Warn("history removed before the sink read it; sending a gap",
		"sink", s.cursor.name, "count", count, "next", "raise journal.historyPerObject or journal.maxBytes, or make the sink faster")
	return s.cursor.trimmed(from, to, count), true
}

// readStream remembers how old the entries up to last are.
func (c *cursor) readStream(last uint64, first time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches = append(c.batches, batch{last: last, at: first})
}

// trimmed is the gap event that declares count events which are gone unread.
func (c *cursor) trimmed(from, to, count uint64) journal.Entry {
	return journal.Entry{Event: event.Event{
		ID: event.TrimmedID(c.name, from, to), Op: event.Gap, Time: time.Now().UTC().Truncate(time.Microsecond),
		Cluster: c.journal.config.Cluster, Target: event.AllTargets,
		Gap: &event.GapInfo{Reason: "trimmed", Recovered: event.RecoveredState, Trimmed: count},
	}}
}
