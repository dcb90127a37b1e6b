package sinktest

import (
	"context"
	"slices"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// writeAt writes events that the destination must take, of a log.
func (h *harness) writeAt(t *testing.T, events []event.Event, at sink.Positions) {
	t.Helper()
	positioned, ok := h.sink.(sink.Positioned)
	if !ok {
		t.Fatalf("%T is no sink.Positioned", h.sink)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if n, err := positioned.WriteAt(ctx, cloneEvents(events), at); n != len(events) || err != nil {
		t.Fatalf("WriteAt took %d of %d events: %v", n, len(events), err)
	}
}

// seqs are n sequences.
func seqs(from uint64, n int) []uint64 {
	all := make([]uint64, n)
	for i := range all {
		all[i] = from + uint64(i)
	}
	return all
}

// checkRepetitions: the destination holds each event once, though informd repeats some after a crash, and some without a
// sequence. What a rewind repeats is new.
func checkRepetitions(t *testing.T, h *harness) {
	events := Events(30)
	h.writeAt(t, events[:10], sink.Positions{Log: "a", Seqs: seqs(1, 10)})
	if err := h.close(t, patience); err != nil {
		t.Fatalf("Close: %v", err)
	}
	h.open(t)
	h.writeAt(t, events[5:20], sink.Positions{Log: "a", Seqs: seqs(6, 15), Acknowledged: 4})
	h.writeAt(t, events[18:22], sink.Positions{Log: "a", Seqs: make([]uint64, 4), Acknowledged: 20})
	h.wantExactly(t, events[:22])
	again := cloneEvents(events[2:5])
	for i := range again {
		again[i].SetRun(7)
	}
	h.writeAt(t, again, sink.Positions{Log: "a", Seqs: seqs(3, 3), Acknowledged: 20})
	h.writeAt(t, again, sink.Positions{Log: "a", Seqs: seqs(3, 3), Acknowledged: 20})
	// Another log counts from the beginning, and may repeat events.
	h.writeAt(t, events[20:30], sink.Positions{Log: "b", Seqs: seqs(1, 10)})
	h.wantExactly(t, slices.Concat(events[:22], again, events[22:]))
}

// checkLost: a destination that lacks what it has acknowledged gets another identity once, whatever comes next, and holds it
// as before.
func checkLost(t *testing.T, h *harness) {
	events := Events(10)
	h.writeAt(t, events[:3], sink.Positions{Log: "a", Seqs: seqs(1, 3)})
	first := h.destination.Identity()
	h.writeAt(t, events[3:6], sink.Positions{Log: "a", Seqs: seqs(4, 3), Acknowledged: 3})
	if got := h.destination.Identity(); got != first || first == "" {
		t.Errorf("the identity is %q, want %q as before", got, first)
	}
	h.writeAt(t, events[6:8], sink.Positions{Log: "a", Seqs: make([]uint64, 2), Acknowledged: 16})
	second := h.destination.Identity()
	if second == first {
		t.Error("a destination that lacks acknowledged events kept its identity")
	}
	h.writeAt(t, events[8:9], sink.Positions{Log: "a", Seqs: make([]uint64, 1), Acknowledged: 16})
	h.writeAt(t, events[9:], sink.Positions{Log: "a", Seqs: seqs(17, 1), Acknowledged: 16})
	if got := h.destination.Identity(); got != second {
		t.Errorf("the identity is %q, want %q as before", got, second)
	}
	h.wantExactly(t, events)
}
