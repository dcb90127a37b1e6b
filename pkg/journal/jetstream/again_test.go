package jetstream_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// TestAppendRest: after an append that the fence has ended, the rest brings in each event
// once, in its order, whether the server has stored all of the others or not.
func TestAppendRest(t *testing.T) {
	h := newHost(t)
	left := h.muted("k8s.test.core.configmaps.default.b")
	paused := errors.New("paused")
	var started atomic.Bool
	j := h.open(func(c *jetstream.Config) {
		c.Fence = func() error {
			if started.Load() && left.Load() == 0 {
				return paused
			}
			return nil
		}
	})
	a, b, c := object{name: "a"}, object{name: "b"}, &clock{}
	events := []event.Event{
		a.event(c, event.Added), a.event(c, event.Modified), b.event(c, event.Added), b.event(c, event.Modified), a.event(c, event.Deleted),
	}
	left.Store(1)
	started.Store(true)
	rest, err := j.AppendRest(t.Context(), events)
	if !errors.Is(err, paused) {
		t.Fatalf("Append: %v", err)
	}
	started.Store(false)
	if rest, err = j.AppendRest(t.Context(), rest); err != nil || len(rest) > 0 {
		t.Fatalf("the rest: %v, %d events", err, len(rest))
	}
	s, err := h.shared().Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.LastSeq != uint64(len(events)) {
		t.Errorf("the stream took %d messages for %d events", info.State.LastSeq, len(events))
	}
}
