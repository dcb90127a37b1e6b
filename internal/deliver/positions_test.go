package deliver_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// positionedSink keeps the positions of what it accepts. It refuses one event for good.
type positionedSink struct {
	fakeSink
	refuse string

	mu    sync.Mutex
	calls []sink.Positions
}

func (s *positionedSink) open(context.Context) (sink.Sink, error) { return s, nil }

func (s *positionedSink) WriteAt(ctx context.Context, batch []event.Event, at sink.Positions) (int, error) {
	at.Seqs = slices.Clone(at.Seqs)
	s.mu.Lock()
	s.calls = append(s.calls, at)
	s.mu.Unlock()
	for i := range batch {
		if batch[i].ID == s.refuse {
			n, _ := s.Write(ctx, batch[:i])
			return n, sink.Permanent(errors.New("no"))
		}
	}
	return s.Write(ctx, batch)
}

// TestPositions: a sink that keeps its own cursor gets the sequence of each event, and the highest one that it has
// acknowledged, also to an earlier runner. What it refused does not count.
func TestPositions(t *testing.T) {
	j := newJournal(t)
	run := func(refuse string, n int) (last sink.Positions) {
		s := &positionedSink{refuse: refuse}
		g := start(t, j, &s.fakeSink, func(o *deliver.Options) { o.Open = s.open })
		waitFor(t, "delivered", func() bool { return len(s.ids()) == n })
		if _, err := g.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s.calls[len(s.calls)-1]
	}
	mustAppend(t, j, events(0, 10))
	first := run("9", 9)
	if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, first.Seqs); diff != "" || first.Acknowledged != 0 || first.Log == "" {
		t.Errorf("the first positions are %+v", first)
	}
	mustAppend(t, j, events(10, 2))
	want := sink.Positions{Log: first.Log, Seqs: []uint64{11, 12}, Acknowledged: 9}
	if diff := cmp.Diff(want, run("", 2)); diff != "" {
		t.Errorf("positions after a restart (-want +got):\n%s", diff)
	}
	want = sink.Positions{Log: first.Log, Seqs: []uint64{13}, Acknowledged: 12}
	mustAppend(t, j, events(12, 1))
	if diff := cmp.Diff(want, run("", 1)); diff != "" {
		t.Errorf("positions after another (-want +got):\n%s", diff)
	}
}
