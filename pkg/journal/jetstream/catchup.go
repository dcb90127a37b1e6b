package jetstream

import (
	"context"
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/withheld"
)

// catchup reads the stream until the tail is reached. It counts the sequences that
// it does not get: the history limit or a share of the space (package retention) has removed those
// events, and each of them is declared by a gap event ahead of what follows. What the
// janitor removes otherwise does not count: every cursor had passed it. Ends that are
// missing count, and follow as copies.
type catchup struct {
	reader

	begun    bool
	declared uint64 // of what is missing, or will be, in gap events
	until    uint64 // the stream is read up to here at least: what is missing was declared ahead, or is a snapshot's
}

func newCatchup(c *cursor, from uint64) *catchup {
	return &catchup{reader: reader{cursor: c, passed: from - 1}}
}

// fill implements [source].
func (s *catchup) fill(ctx context.Context) (entries []journal.Entry, done bool, err error) {
	tail := s.cursor.journal.log.Tail
	// What the log had before the pull, the pull finds, unless it is gone for good.
	goal := tail.End()
	opened, err := s.begin(ctx)
	if err != nil {
		return nil, false, err
	}
	from, missing := s.passed+1, s.missing
	entries, found, over, err := s.next(ctx, goal)
	if err != nil {
		return nil, false, err
	}
	if len(found) > 0 {
		s.cursor.readStream(s.passed, found[0].Time)
	}
	s.cursor.passed(s.passed)
	lost := s.missing > missing
	if lost {
		s.cursor.withheld = s.cursor.withheld.Again(s.cursor.journal.log.Tail.End())
	}
	entries = s.cursor.withheld.Withhold(entries, !lost)
	if gap, ok := s.gap(from, s.passed, goal, opened); ok {
		entries = slices.Insert(entries, 0, gap)
	}
	// The tail may still have what was declared as missing: not before until.
	return entries, over || s.passed >= s.until && tail.Holds(s.passed+1), nil
}

// begin opens the reader. It returns how many of the sequences up
// to the goal were missing when it began, the first time: it may be more by now, and
// was a few less if they were counted while messages were removed.
func (s *catchup) begin(ctx context.Context) (missing uint64, err error) {
	if s.pull != nil {
		return 0, nil
	}
	j := s.cursor.journal
	end := j.log.Tail.End()
	if err := s.open(ctx); err != nil {
		return 0, err
	}
	// A copy that is a moment behind counts too little, and would declare what it gets yet.
	if stored := end - min(end, s.passed); !s.begun && !j.log.Stream.Replicated() && stored > s.pull.Pending {
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
	s.cursor.journal.log.Logger.Warn("history removed before the sink read it; sending a gap",
		"sink", s.cursor.name, "count", count, "next", "raise journal.historyPerObject or journal.maxBytes, or make the sink faster")
	return s.cursor.trimmed(from, to, count), true
}

// withheldBefore is what an earlier process, or an earlier reader, had to expect: nil if the sink
// has read past its last loss. It is called with the lock held.
func (c *cursor) withheldBefore() *withheld.Ends {
	if c.record.Detached <= c.record.Last {
		return nil
	}
	return withheld.New(c.record.Detached)
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
