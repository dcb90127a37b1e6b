package journal

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// states announces the last event of every object to one sink, in turn with the events of the log:
// as the first snapshot of a new sink, or as a re-snapshot.
//
// It announces what the sink has passed in the log, up to end, and what is still the last event of
// its object then. An object with a newer event is left out: that event follows in the log. So no
// state follows a newer one, and the ends of the snapshot come when the sink has read the log as far
// as it went after the last state.
type states struct {
	cursor *Cursor
	first  bool // the first snapshot of a sink
	run    uint64
	end    uint64
	stable uint64 // the states are durable when the log is readable up to here
	// target returns the name of the target that an object is announced for, "" for an object that
	// is not, and runOf the run of that target.
	target func(*event.Event) string
	runOf  func(target string) uint64
	// in reports whether a target of the log can have such objects; nil if each can.
	in     func(target string) bool
	begins []Entry
	ends   []Entry

	step   step
	places []wal.Place
	source wal.Source
	until  uint64 // the ends come when the log was read up to here
	rests  bool   // the log has its turn
}

// step is how far a snapshot is.
type step int

const (
	stepBegin step = iota
	stepStates
	stepLog // the log up to until
)

// newFirstSnapshot is the snapshot of a new sink.
func newFirstSnapshot(c *Cursor) *states {
	s := &states{cursor: c, first: true, run: c.journal.runs.Next()}
	s.target = func(e *event.Event) string {
		if !c.journal.config.Watched(e) {
			return ""
		}
		return e.Target
	}
	return s
}

// newResnapshot is the re-snapshot of a request.
func newResnapshot(c *Cursor, r Resnapshot) *states {
	targets := map[string]string{} // by namespace; "" is for all
	for i := range r.Begin {
		_, namespace, _ := strings.Cut(r.Begin[i].Target, "@")
		targets[namespace] = r.Begin[i].Target
	}
	of := &r.Begin[0]
	return &states{
		cursor: c, run: r.Run, begins: bounds(r.Begin), ends: bounds(r.End),
		runOf: func(string) uint64 { return r.Run },
		in: func(target string) bool {
			resource, _, _ := strings.Cut(target, "@")
			return resource == event.GroupOrCore(of.Group)+"/"+of.Resource || slices.Contains(slices.Collect(maps.Values(targets)), target)
		},
		target: func(e *event.Event) string {
			if e.Group != of.Group || e.Resource != of.Resource || !c.journal.config.Watched(e) {
				return ""
			}
			return cmp.Or(targets[""], targets[e.Namespace])
		},
	}
}

// bounds makes entries of control events, of now.
func bounds(events []event.Event) []Entry {
	entries := make([]Entry, len(events))
	for i, e := range events {
		e.Time = time.Now().UTC().Truncate(time.Microsecond)
		entries[i].Event = e
	}
	return entries
}

// replace reports whether states stand for the events before that one of the same object.
func (s *states) replace(e *event.Event) bool { return s != nil && (s.first || s.target(e) != "") }

// due reports whether the snapshot is to advance now, and not the log.
func (s *states) due() bool {
	c := s.cursor
	c.mu.Lock()
	next, rewound := c.next, c.position.Until
	c.mu.Unlock()
	if s.first && s.until == 0 {
		s.until = c.journal.log.Keys.Last()
	}
	switch {
	case s.step == stepLog:
		return next > s.until
	case s.step == stepBegin && next <= max(rewound, s.until):
		return false // what is read again, or before the states, does not show which objects exist now
	case c.journal.log.Barrier.Readable() < max(s.stable, next-1):
		return false // a state must not be announced that a power loss may take
	}
	return !s.rests
}

// advance puts the next entries of the snapshot into the queue.
func (s *states) advance(limit int) error {
	switch s.step {
	case stepBegin:
		return s.begin()
	case stepStates:
		return s.advanceStates(limit)
	case stepLog:
		s.finish()
	}
	return nil
}

// begin announces the beginnings.
func (s *states) begin() error {
	c := s.cursor
	c.mu.Lock()
	s.end = c.next - 1
	c.mu.Unlock()
	for again := true; again; {
		var controls []wal.Place
		s.places, controls, s.stable = c.journal.log.History.Lasts(s.in)
		if !s.first {
			break
		}
		err := s.findBounds(controls)
		if again = errors.Is(err, wal.ErrGone); err != nil && !again {
			return err
		}
	}
	if s.first { // its own ends stand for those of the lists that are complete
		c.mu.Lock()
		c.position.Incomplete = max(c.position.Incomplete, s.stable)
		c.mu.Unlock()
	}
	c.queue = append(c.queue, s.begins...)
	s.step = stepStates
	return nil
}

// advanceStates announces some objects.
func (s *states) advanceStates(limit int) error {
	s.rests = true
	c := s.cursor
	for n := 0; n < limit && len(s.places) > 0; s.places = s.places[1:] {
		if s.places[0].Seq > s.end {
			continue
		}
		last, err := c.journal.log.History.Read(s.places[0], &s.source)
		if errors.Is(err, wal.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		if e, ok := s.announce(last.Event); ok {
			c.queue = append(c.queue, Entry{Event: e})
			n++
		}
	}
	if len(s.places) == 0 {
		s.places, s.step = nil, stepLog
		s.close()
		s.extend()
	}
	return nil
}

// close closes the files in use.
func (s *states) close() {
	if s != nil {
		s.source.Close()
	}
}

// extend has the ends come behind all that the log has now. What follows the states may lack events,
// so that an object may have its next one there.
func (s *states) extend() {
	if s.step != stepLog {
		return
	}
	c := s.cursor
	s.until = c.journal.log.Keys.Last()
	if s.first {
		c.mu.Lock()
		c.floor = s.until
		c.position.Detached = max(c.position.Detached, s.until)
		c.mu.Unlock()
	}
}

// announce makes of the last event of an object one that announces it.
func (s *states) announce(e event.Event) (event.Event, bool) {
	target := s.target(&e)
	if target == "" {
		return e, false
	}
	if !s.first {
		e.ID, e.Target = form.ObjectID(e.UID, e.ResourceVersion, e.Epoch), target
		e.PrevResourceVersion = e.ResourceVersion
	}
	e.SetRun(s.runOf(e.Target))
	e.Op, e.Replay = event.Snapshot, !s.first
	e.DropChanges()
	return e, true
}

// read changes what was read of the log while the snapshot is in progress. Events within the first
// one have no sequence: a sink that breaks off begins again. What has a run of its own comes again with that of this
// snapshot: consumers cannot know otherwise that the object exists now. The end of a list waits for those of the snapshot:
// the sink can have its beginning from an earlier attempt, and an object that was left out may have its newer event
// behind it.
func (s *states) read(entries []Entry) []Entry {
	if s.step == stepBegin {
		return s.readBefore(entries)
	}
	var all []Entry
	for _, e := range entries {
		if s.first && e.Event.Op == event.Synced {
			s.ends = append(s.ends, Entry{Event: e.Event})
			continue
		}
		again, ok := e.Event, !e.Event.Op.Control() && !e.Event.Op.Ends() && e.Event.Run != 0
		if ok = ok && e.Event.Run != s.runOf(e.Event.Target); ok {
			again, ok = s.announce(again)
		}
		if s.first {
			e.Seq = 0
		}
		all = append(all, e)
		if ok {
			all = append(all, Entry{Event: again})
		}
	}
	return all
}

// readBefore leaves of the log before a first snapshot what a sink needs that has got a part of it in an earlier attempt:
// the deletions, and a gap if some may be missing. States of the present replace the rest.
func (s *states) readBefore(entries []Entry) []Entry {
	if !s.first {
		return entries
	}
	var left []Entry
	for _, e := range entries {
		if e.Event.Op.Ends() || e.Event.Op == event.Gap && e.Seq == 0 {
			left = append(left, Entry{Event: e.Event, Detached: true})
		}
	}
	return left
}

// finish announces the ends. The last entry of a first snapshot has the sequence that completes it.
func (s *states) finish() {
	c := s.cursor
	c.states, c.queue = nil, append(c.queue, s.ends...)
	n := len(c.queue)
	if s.first && n > 0 {
		c.queue[n-1].Seq = s.until
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.first {
		c.requests.announced = true
		return
	}
	// There was nothing to deliver, so nobody commits.
	c.position.Seq, c.position.Snapshot = s.until, false
	wal.Signal(c.journal.dirty)
}

// findBounds makes the bounds of the first snapshot from those in the log. A target whose first list
// is in progress keeps its own run, and the log has its end. Of one whose last list is from before
// damage objects may be missing, and it gets no end before its next list. The error is [wal.ErrGone] if there are newer ones.
func (s *states) findBounds(controls []wal.Place) error {
	s.begins, s.ends = nil, nil
	begun, synced := map[string]wal.Entry{}, map[string]wal.Entry{}
	for _, place := range controls {
		e, err := s.cursor.journal.log.History.Read(place, &s.source)
		switch {
		case err != nil:
			return err
		case !s.cursor.journal.config.Watched(&e.Event):
		case e.Event.Op == event.Begin && e.Seq <= s.end:
			begun[e.Event.Target] = e
		case e.Event.Op == event.Synced:
			synced[e.Event.Target] = e
		}
	}
	runs := map[string]uint64{}
	for target, last := range synced {
		if b, ok := begun[target]; ok && b.Seq > last.Seq && !b.Event.Replay {
			continue // it takes its first list again
		}
		delete(begun, target)
		s.addBounds(last.Event, last.Seq > s.cursor.journal.log.Damage)
	}
	for target, b := range begun {
		runs[target] = b.Event.Run
		s.begins = append(s.begins, Entry{Event: b.Event})
	}
	byTarget := func(a, b Entry) int { return cmp.Compare(a.Event.Target, b.Event.Target) }
	slices.SortFunc(s.begins, byTarget)
	slices.SortFunc(s.ends, byTarget)
	s.runOf = func(target string) uint64 { return cmp.Or(runs[target], s.run) }
	return nil
}

func (s *states) addBounds(synced event.Event, whole bool) {
	synced.Replay = false
	begin := synced
	begin.SetBound(event.Begin, s.run, synced.ResourceVersion)
	s.begins = append(s.begins, Entry{Event: begin})
	if whole {
		synced.SetBound(event.Synced, s.run, synced.ResourceVersion)
		s.ends = append(s.ends, Entry{Event: synced})
	}
}
