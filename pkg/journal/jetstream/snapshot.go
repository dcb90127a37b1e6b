package jetstream

import (
	"context"
	"fmt"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/bounds"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/states"
)

// snapshot gives a new sink the state of all objects that are watched, as of the
// sequence end, between a begin and a synced event of each target. What changes meanwhile
// has a higher sequence and follows as it is, ahead of the synced events: each object that
// exists has an event between them.
//
// Only the last entry has a sequence, so that a sink that breaks off begins again, with
// another run. It may then know objects that are gone meanwhile: the ends since the first
// attempt come first.
type snapshot struct {
	cursor *cursor
	run    uint64
	since  uint64 // the end of the first attempt
	end    uint64

	deletions reader // of the ends
	ended     bool   // they are through
	bounds    *bounds.Bounds
	states    *states.States
	// log is read once the states are through, up to the sequence goal. That is moved once if events
	// were removed unread on the way: see [resnapshot.reached].
	log    *catchup
	goal   uint64
	longer bool
	held   []journal.Entry // the newest entry: it may be the last
}

func newSnapshot(c *cursor, end, since uint64) *snapshot {
	return &snapshot{
		cursor: c, run: c.journal.runs.Next(), since: since, end: end, ended: since >= end,
		deletions: reader{cursor: c, to: end, passed: since, wants: func(m scan.Message) bool {
			return event.Op(m.Header.Get(message.HeaderOp)).Ends()
		}},
		states: &states.States{
			Log: c.journal.log, Filters: []string{c.journal.config.root() + ".>"}, End: end,
			Wants: c.journal.config.watched,
		},
	}
}

func (s *snapshot) close(ctx context.Context) {
	s.deletions.close(ctx)
	if s.log != nil {
		s.log.close(ctx)
	}
	s.states.Close(ctx)
}

// fill implements [source].
func (s *snapshot) fill(ctx context.Context) (entries []journal.Entry, done bool, err error) {
	if s.end == 0 {
		return nil, true, nil
	}
	switch {
	case !s.ended:
		entries, err = s.ends(ctx)
	case s.bounds == nil:
		if s.bounds, err = bounds.UpTo(ctx, s.cursor.journal.log, s.cursor.journal.config.root(), s.cursor.journal.config.watched, s.cursor.journal.lossy, s.end, s.run); err == nil {
			entries = s.bounds.Begins
		}
	case s.log != nil:
		return s.follow(ctx)
	default:
		entries, done, err = s.objects(ctx)
	}
	if err != nil {
		return nil, false, err
	}
	entries = append(s.held, entries...)
	s.held = nil
	if !done {
		return s.holdLast(entries), false, nil
	}
	// Of an object that has changed meanwhile only the change is there, and follows.
	newest, err := s.cursor.journal.log.Stream.LastSequence(ctx)
	if err != nil {
		s.held = entries
		return nil, false, err
	}
	s.cursor.detach(newest)
	if len(s.bounds.Ends) == 0 || newest <= s.end {
		return s.finish(append(entries, s.bounds.Ends...)), true, nil
	}
	s.log, s.goal = newCatchup(s.cursor, s.end+1), newest
	s.log.until = newest // not from the tail before that
	s.cursor.raise(newest)
	return entries, false, nil
}

// follow reads the log up to the goal, and ends the snapshot there. The cursor continues with
// the same reading.
func (s *snapshot) follow(ctx context.Context) (entries []journal.Entry, done bool, err error) {
	found, done, err := s.log.fill(ctx)
	if err != nil {
		return nil, false, err
	}
	if loss := s.cursor.withheld.LastLoss(); loss > s.goal && s.log.passed >= s.goal && !s.longer {
		s.goal, s.log.until, s.longer = loss, loss, true
		s.cursor.raise(loss)
		if done {
			s.log.close(ctx) // it reads on in another one
			done = false
		}
	}
	n := 0
	for n < len(found) && found[n].Seq <= s.goal {
		n++
	}
	within, behind := found[:n:n], found[n:]
	repeats := s.repeats(within)
	for i := range within {
		within[i].Seq = 0
	}
	within = append(within, repeats...)
	if !done && s.log.passed < s.goal {
		return within, false, nil
	}
	s.end = min(s.goal, s.log.passed)
	s.cursor.raise(s.end)
	entries = append(s.finish(append(within, s.bounds.Ends...)), behind...)
	if !done {
		s.cursor.source, s.log = s.log, nil
	}
	return entries, done, nil
}

// repeats are the states that resync or a re-snapshot has announced, with the run of this
// snapshot: with their own they do not show a consumer that the object exists.
func (s *snapshot) repeats(entries []journal.Entry) (repeats []journal.Entry) {
	for _, e := range announcedAgain(entries) {
		again := *e
		again.SetRun(s.bounds.RunOf(e.Target))
		again.Replay = false
		repeats = append(repeats, journal.Entry{Event: again})
	}
	return repeats
}

// raise has the sink begin again with another snapshot if it does not get as far as the
// sequence floor.
func (c *cursor) raise(floor uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floor = floor
}

// objects turns the last events of objects that exist into their snapshot.
func (s *snapshot) objects(ctx context.Context) (entries []journal.Entry, through bool, err error) {
	events, through, err := s.states.Next(ctx)
	for _, e := range events {
		e.SetRun(s.bounds.RunOf(e.Target))
		e.Op, e.Replay = event.Snapshot, false
		entries = append(entries, journal.Entry{Event: e})
	}
	return entries, through, err
}

// ends reads on for ends of objects, and is through with them at the snapshot's end.
// What is missing may have been some, too.
func (s *snapshot) ends(ctx context.Context) (entries []journal.Entry, err error) {
	r := &s.deletions
	entries, _, through, err := r.next(ctx, s.end)
	if err != nil {
		return nil, fmt.Errorf("read deletion events: %w", err)
	}
	for i := range entries {
		entries[i].Seq = 0
	}
	if !through {
		return entries, nil
	}
	r.close(ctx)
	if r.missing > 0 {
		entries = append(entries, s.cursor.trimmed(s.since+1, s.end, r.missing))
	}
	s.ended = true
	return entries, nil
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
