package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// left is what a journal could never store.
type left struct {
	ids     []string
	refuses atomic.Int64 // so many times the event cannot be kept elsewhere either
}

func (l *left) take(_ context.Context, e *event.Event, reason error) error {
	if reason == nil {
		return errors.New("no reason")
	}
	if l.refuses.Add(-1) >= 0 {
		return errors.New("no place")
	}
	l.ids = append(l.ids, e.ID)
	return nil
}

// TestHeadersTooLargeForGood: an event whose headers the server never takes is handed over,
// and what follows is not held up.
func TestHeadersTooLargeForGood(t *testing.T) {
	for _, payload := range []int32{1 << 20, 32 << 10} { // a limit of headers, and one of messages
		t.Run(fmt.Sprint(payload), func(t *testing.T) {
			h := newHostWith(t, payload)
			var l left
			l.refuses.Store(2)
			j := h.open(func(c *jetstream.Config) { c.Unstorable = l.take })
			c := mustOpen(t, j, "bus", journal.FromNow)
			var now clock
			long, short := &object{name: strings.Repeat("n", 33_000)}, &object{name: "short"}
			bad := long.event(&now, event.Added)
			mustAppend(t, j, bad, short.event(&now, event.Added), long.event(&now, event.Modified), short.event(&now, event.Modified))
			for _, e := range read(t, c, 2) {
				if e.Event.Name != "short" {
					t.Errorf("the log has %.100s", e.Event.ID)
				}
			}
			if len(l.ids) != 2 || l.ids[0] != bad.ID {
				t.Errorf("handed over: %.200q", l.ids)
			}
			if got := j.Stats().Unstorable; got != 2 {
				t.Errorf("unstorable = %d, want 2", got)
			}
		})
	}
}
