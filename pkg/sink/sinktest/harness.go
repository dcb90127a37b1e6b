package sinktest

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// harness drives one sink as the deliver package does, and watches it.
type harness struct {
	destination *Destination
	sink        sink.Sink
}

func newHarness(t *testing.T, d *Destination) *harness {
	t.Helper()
	h := &harness{destination: d}
	h.open(t)
	return h
}

// open opens the sink and sees to its being closed.
func (h *harness) open(t *testing.T) {
	t.Helper()
	s := h.destination.Open(t)
	h.sink = s
	t.Cleanup(func() {
		if h.sink != s {
			return // closed by the check
		}
		if err := h.close(t, patience); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// close closes the sink with a context that ends after limit, and returns what
// Close did.
func (h *harness) close(t *testing.T, limit time.Duration) error {
	t.Helper()
	s := h.sink
	h.sink = nil
	// Not t.Context(): that one has ended when cleanups run.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	started := time.Now()
	err := s.Close(ctx)
	if took := time.Since(started); took > limit+patience/2 {
		t.Errorf("Close took %v though its context ended after %v", took, limit)
	}
	return err
}

// write calls Write with a copy of the events, makes sure that the sink left the
// copy alone, and then overwrites it: what the sink kept of it would show in the
// destination, or to the race detector.
func (h *harness) write(ctx context.Context, t *testing.T, events []event.Event) (int, error) {
	t.Helper()
	batch := cloneEvents(events)
	n, err := h.sink.Write(ctx, batch)
	if !reflect.DeepEqual(batch, cloneEvents(events)) {
		t.Error("Write changed the batch")
	}
	scribble(batch)
	switch {
	case n < 0 || n > len(events):
		t.Fatalf("Write returned n = %d for %d events", n, len(events))
	case n < len(events) && err == nil:
		t.Fatalf("Write returned n = %d of %d without an error", n, len(events))
	case n == len(events) && err != nil:
		t.Fatalf("Write took all %d events and returned the error %v", n, err)
	}
	return n, err
}

// mustWrite writes events that the destination must take.
func (h *harness) mustWrite(t *testing.T, events []event.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if n, err := h.write(ctx, t, events); err != nil {
		t.Fatalf("Write took %d of %d events: %v", n, len(events), err)
	}
}

// deliver writes events as the deliver package does: what is left after a
// failure is written again until the destination holds everything.
func (h *harness) deliver(t *testing.T, events []event.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for len(events) > 0 {
		n, err := h.write(ctx, t, events)
		if err != nil && (sink.IsPermanent(err) || ctx.Err() != nil) {
			t.Fatalf("%d events left that could not be delivered again: %v", len(events)-n, err)
		}
		events = events[n:]
		if err != nil {
			<-pause.C
		}
	}
}

// wantExactly holds the destination to the events, all and in order and none twice.
func (h *harness) wantExactly(t *testing.T, events []event.Event) {
	t.Helper()
	got := h.destination.Received(t)
	if diff := cmp.Diff(EventIDs(events), IDs(got)); diff != "" {
		t.Fatalf("ids in the destination (-want +got):\n%s", diff)
	}
	h.wantContents(t, events, got)
}

// wantAtLeast holds the destination to the events, all of them, with the right
// contents and in order per object, where some may be there more than once and
// others may be there, too.
func (h *harness) wantAtLeast(t *testing.T, events []event.Event) {
	t.Helper()
	got := h.destination.Received(t)
	h.wantContents(t, events, got)
	if _, err := InOrder(IDs(got), events); err != nil {
		t.Fatal(err)
	}
}

// wantContents compares attributes and data of what the destination holds with
// the events of the same id. Records of other events pass.
func (h *harness) wantContents(t *testing.T, events []event.Event, got []Record) {
	t.Helper()
	want := map[string]Record{}
	for _, r := range records(t, events) {
		want[r.Attributes["id"]] = r
	}
	for i, r := range got {
		w, ok := want[r.Attributes["id"]]
		if !ok {
			continue
		}
		if diff := cmp.Diff(w.Attributes, r.Attributes); diff != "" {
			t.Errorf("record %d: attributes (-want +got):\n%s", i, diff)
		}
		if w.Data != r.Data && !(h.destination.Normalised && sameJSON(w.Data, r.Data)) {
			t.Errorf("record %d, %s: data differs at byte %d\nwant %s\ngot  %s", i, r.Attributes["id"],
				differsAt(w.Data, r.Data), excerpt(w.Data), excerpt(r.Data))
		}
	}
}

// sameJSON reports whether two texts are JSON of the same meaning.
func sameJSON(a, b string) bool {
	var first, second any
	return json.Unmarshal([]byte(a), &first) == nil && json.Unmarshal([]byte(b), &second) == nil && reflect.DeepEqual(first, second)
}

func differsAt(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// excerpt keeps a failed test's output readable.
func excerpt(s string) string {
	const limit = 300
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}

func cloneEvents(events []event.Event) []event.Event {
	clones := make([]event.Event, len(events))
	for i, e := range events {
		e.Data = bytes.Clone(e.Data)
		if e.Gap != nil {
			gap := *e.Gap
			e.Gap = &gap
		}
		clones[i] = e
	}
	return clones
}

func scribble(batch []event.Event) {
	for i := range batch {
		copy(batch[i].Data, bytes.Repeat([]byte{'!'}, len(batch[i].Data)))
		if batch[i].Gap != nil {
			*batch[i].Gap = event.GapInfo{Reason: "scribbled"}
		}
		batch[i] = event.Event{ID: "scribbled", Op: event.Added}
	}
}
