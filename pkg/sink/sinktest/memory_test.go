package sinktest_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
)

var errBroken = errors.New("destination is broken")

const poisonName = "poison"

// destination is a place in memory that can play every part the suite asks for.
type destination struct {
	mu      sync.Mutex
	held    [][]byte
	kept    []event.Event // what a sink kept of its batches
	room    int           // events it still takes; negative is no limit
	stalled chan struct{} // closed by heal; nil if not stalled

	// The cursor of a positioned sink.
	log      string
	seq      uint64
	ids      map[string]bool
	identity int
}

func (d *destination) put(ctx context.Context, line []byte) error {
	d.mu.Lock()
	stalled := d.stalled
	d.mu.Unlock()
	if stalled != nil {
		select {
		case <-stalled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room == 0 {
		return errBroken
	}
	d.room--
	d.held = append(d.held, line)
	return nil
}

func (d *destination) received(t *testing.T) []sinktest.Record {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]sinktest.Record, 0, len(d.held)+len(d.kept))
	lines := d.held
	for i := range d.kept {
		lines = append(lines, d.kept[i].AppendJSON(nil))
	}
	for _, line := range lines {
		r, err := sinktest.FromJSON(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// defect changes what a sound memory sink does.
type defect struct {
	before func(batch []event.Event)                 // before writing
	result func(n int, err error) (int, error)       // of writing
	line   func(e *event.Event, line []byte) []byte  // of one event; nil drops it
	ctx    func(ctx context.Context) context.Context // that writing heeds
	close  func(ctx context.Context) (handled bool)  // instead of closing
	keep   func(d *destination, batch []event.Event) // after writing
	order  func(batch []event.Event) []event.Event   // of writing

	forgets bool // that events were lost
	repeats bool // events
}

type memorySink struct {
	*destination
	defect defect
}

func (s *memorySink) Write(ctx context.Context, batch []event.Event) (int, error) {
	if s.defect.before != nil {
		s.defect.before(batch)
	}
	if s.defect.ctx != nil {
		ctx = s.defect.ctx(ctx)
	}
	ordered := batch
	if s.defect.order != nil {
		ordered = s.defect.order(slices.Clone(batch))
	}
	n, err := s.write(ctx, ordered)
	if s.defect.keep != nil {
		s.defect.keep(s.destination, batch)
	}
	if s.defect.result != nil {
		return s.defect.result(n, err)
	}
	return n, err
}

func (s *memorySink) write(ctx context.Context, batch []event.Event) (int, error) {
	for i := range batch {
		if err := ctx.Err(); err != nil {
			return i, err
		}
		if batch[i].Name == poisonName {
			return i, sink.Permanent(errors.New("never"))
		}
		line := batch[i].AppendJSON(nil)
		if s.defect.line != nil {
			line = s.defect.line(&batch[i], line)
		}
		if line == nil {
			continue
		}
		if err := s.put(ctx, line); err != nil {
			return i, err
		}
	}
	return len(batch), nil
}

func (s *memorySink) Close(ctx context.Context) error {
	if s.defect.close != nil && s.defect.close(ctx) {
		return nil
	}
	return nil
}

func target(lanes int, bug defect) sinktest.Target {
	return sinktest.Target{Lanes: lanes, Setup: func(*testing.T) *sinktest.Destination {
		d := &destination{room: -1, ids: map[string]bool{}}
		return &sinktest.Destination{
			Open:     func(*testing.T) sink.Sink { return &positionedSink{memorySink{destination: d, defect: bug}} },
			Identity: func() string { return strconv.Itoa(d.identity) },
			Received: d.received,
			Break: func(_ *testing.T, after int) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.room = after
			},
			Stall: func(*testing.T) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.stalled = make(chan struct{})
			},
			Heal: func(*testing.T) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.room = -1
				if d.stalled != nil {
					close(d.stalled)
					d.stalled = nil
				}
			},
			Poison: func(*testing.T) event.Event {
				e := sinktest.Events(1)[0]
				e.ID, e.Name = "poison:1", poisonName
				return e
			},
		}
	}}
}

// positionedSink keeps the cursor in its destination.
type positionedSink struct{ memorySink }

func (s *positionedSink) WriteAt(ctx context.Context, batch []event.Event, at sink.Positions) (int, error) {
	d := s.destination
	if at.Log != d.log {
		d.log, d.seq = at.Log, 0
	}
	if at.Acknowledged > d.seq && !s.defect.forgets {
		d.identity++
		d.seq = at.Acknowledged
	}
	for i := range batch {
		d.seq = max(d.seq, at.Seqs[i])
		if d.ids[batch[i].ID] && !s.defect.repeats {
			continue
		}
		if n, err := s.Write(ctx, batch[i:i+1]); n == 0 {
			return i, err
		}
		d.ids[batch[i].ID] = true
	}
	return len(batch), nil
}
