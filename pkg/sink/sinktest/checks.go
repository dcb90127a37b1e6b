package sinktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// checkOrder: after every Write the destination holds what was written, in order.
func checkOrder(t *testing.T, h *harness) {
	events := Events(100)
	for done, size := 0, 1; done < len(events); size = size*2 + 1 {
		next := min(done+size, len(events))
		h.mustWrite(t, events[done:next])
		done = next
		h.wantExactly(t, events[:done])
	}
}

// checkContents: every event arrives with its attributes and data.
func checkContents(events []event.Event) func(t *testing.T, h *harness) {
	return func(t *testing.T, h *harness) {
		t.Helper()
		h.mustWrite(t, events)
		h.wantExactly(t, events)
	}
}

// checkEmpty: a Write of nothing delivers nothing, and harms nothing.
func checkEmpty(t *testing.T, h *harness) {
	h.mustWrite(t, nil)
	h.wantExactly(t, nil)
	events := Events(3)
	h.mustWrite(t, events)
	h.mustWrite(t, []event.Event{})
	h.wantExactly(t, events)
}

// checkReopen: a sink that comes back goes on where it ended.
func checkReopen(t *testing.T, h *harness) {
	events := Events(20)
	h.mustWrite(t, events[:12])
	if err := h.close(t, patience); err != nil {
		t.Fatalf("Close: %v", err)
	}
	h.wantExactly(t, events[:12])
	h.open(t)
	h.mustWrite(t, events[12:])
	h.wantExactly(t, events)
}

// checkEndedContext: a Write that comes too late says so, and how far it came.
func checkEndedContext(t *testing.T, h *harness) {
	events := Events(10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, err := h.write(ctx, t, events)
	wantContextError(ctx, t, err)
	h.wantAtLeast(t, events[:n])
	h.deliver(t, events[n:])
	h.wantAtLeast(t, events)
}

// checkRacingContext ends the context at many points of a Write.
func checkRacingContext(t *testing.T, h *harness) {
	events := Events(100)
	left := events
	for round := range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round*round)*50*time.Microsecond)
		n, err := h.write(ctx, t, left)
		if err != nil {
			wantContextError(ctx, t, err)
		}
		cancel()
		left = left[n:]
		if len(left) == 0 {
			break
		}
		h.wantAtLeast(t, events[:len(events)-len(left)])
	}
	h.deliver(t, left)
	h.wantAtLeast(t, events)
}

// stalledEvents are more than any buffer on the way takes.
func stalledEvents() []event.Event { return slices.Concat(Events(5), Big(5, 1<<20)) }

// checkStalled: a destination that does not answer cannot hold Write beyond its
// context.
func checkStalled(t *testing.T, h *harness) {
	before, events := Events(3), stalledEvents()[3:]
	h.mustWrite(t, before)
	h.destination.Stall(t)
	n := h.writeStalled(t, events)
	n += h.writeStalled(t, events[n:]) // and again, while the first may still be on its way
	h.destination.Heal(t)
	h.deliver(t, events[n:])
	h.wantAtLeast(t, slices.Concat(before, events))
}

// writeStalled writes to a stalled destination with a short deadline.
func (h *harness) writeStalled(t *testing.T, events []event.Event) int {
	t.Helper()
	const deadline = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	started := time.Now()
	n, err := h.write(ctx, t, events)
	if took := time.Since(started); took > deadline+5*time.Second {
		t.Errorf("Write returned %v after its context had ended", took-deadline)
	}
	wantContextError(ctx, t, err)
	return n
}

// checkCloseStalled: nor can it hold Close. What could not be freed is freed
// when the destination lets go.
func checkCloseStalled(t *testing.T, h *harness) {
	h.destination.Stall(t)
	h.writeStalled(t, stalledEvents())
	started := time.Now()
	if err := h.close(t, 100*time.Millisecond); err != nil {
		t.Logf("Close: %v", err) // it may well say that something is left
	}
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("Close took %v with a context of 100ms", took)
	}
	h.destination.Heal(t)
}

// checkBreak: a failure that passes is not called permanent, and what is sent
// again after it makes the destination whole.
func checkBreak(after int) func(t *testing.T, h *harness) {
	return func(t *testing.T, h *harness) {
		t.Helper()
		before, events := Events(4), Events(24)[4:]
		h.mustWrite(t, before)
		h.destination.Break(t, after)
		n := h.writeBroken(t, events)
		n += h.writeBroken(t, events[n:]) // still broken: still the same kind of error
		h.destination.Heal(t)
		h.wantAtLeast(t, slices.Concat(before, events[:n]))
		h.deliver(t, events[n:])
		h.wantAtLeast(t, slices.Concat(before, events))
	}
}

// writeBroken writes to a destination that fails in a way that passes.
func (h *harness) writeBroken(t *testing.T, events []event.Event) int {
	t.Helper()
	// A sink that waits for a lost connection may do so until the context ends.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	n, err := h.write(ctx, t, events)
	if err == nil {
		t.Fatalf("Write took all %d events though the destination is broken", len(events))
	}
	if sink.IsPermanent(err) {
		t.Errorf("Write called a failure permanent that passes: %v", err)
	}
	return n
}

// checkCloseAfterFailure: a sink that failed can be closed, and another one
// takes over.
func checkCloseAfterFailure(t *testing.T, h *harness) {
	events := Events(10)
	h.destination.Break(t, 2)
	n := h.writeBroken(t, events)
	if err := h.close(t, 2*time.Second); err != nil {
		t.Logf("Close: %v", err) // what is broken may show here, too
	}
	h.destination.Heal(t)
	h.wantAtLeast(t, events[:n])
	h.open(t)
	h.deliver(t, events[n:])
	h.wantAtLeast(t, events)
}

// checkPoison: an event that can never be delivered is named exactly, so that
// those before it count and those behind it can follow.
func checkPoison(at int) func(t *testing.T, h *harness) {
	return func(t *testing.T, h *harness) {
		t.Helper()
		good := Events(4)
		batch := slices.Insert(slices.Clone(good), at, h.destination.Poison(t))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		n, err := h.write(ctx, t, batch)
		if n != at || !sink.IsPermanent(err) {
			t.Fatalf("Write returned %d and the error %v (permanent: %t), want %d and a permanent error", n, err, sink.IsPermanent(err), at)
		}
		h.wantAtLeast(t, batch[:n])
		if rest := batch[n+1:]; len(rest) > 0 {
			h.deliver(t, rest)
		}
		h.wantAtLeast(t, good)
		for _, r := range h.destination.Received(t) {
			if r.Attributes["id"] == batch[at].ID {
				t.Errorf("the destination holds the event %s that it refused", batch[at].ID)
			}
		}
	}
}

// checkLanes: batches about different objects can be written at the same time.
func checkLanes(lanes int) func(t *testing.T, h *harness) {
	return func(t *testing.T, h *harness) {
		t.Helper()
		all := make([][]event.Event, lanes)
		failures := make([]error, lanes)
		var writers sync.WaitGroup
		for lane := range lanes {
			all[lane] = eventsAbout(fmt.Sprintf("lane%d-", lane), 50)
			writers.Go(func() { failures[lane] = h.writeLane(t, all[lane]) })
		}
		writers.Wait()
		if err := errors.Join(failures...); err != nil {
			t.Fatal(err)
		}
		h.wantAtLeast(t, slices.Concat(all...))
	}
}

// writeLane writes events in small batches. It runs beside the test's goroutine.
func (h *harness) writeLane(t *testing.T, events []event.Event) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for batch := range slices.Chunk(events, 7) {
		if n, err := h.sink.Write(ctx, cloneEvents(batch)); err != nil || n != len(batch) {
			return fmt.Errorf("write %d events of a lane: took %d: %w", len(batch), n, err)
		}
	}
	return nil
}

func wantContextError(ctx context.Context, t *testing.T, err error) {
	t.Helper()
	<-ctx.Done() // the deadline that a network call has from it can be noticed earlier
	late, isNet := errors.AsType[net.Error](err)
	switch {
	case err == nil, !errors.Is(err, ctx.Err()) && !(isNet && late.Timeout()):
		t.Errorf("Write returned the error %v, want one that is %v", err, ctx.Err())
	case sink.IsPermanent(err):
		t.Errorf("Write called the end of the context permanent: %v", err)
	}
}
