package jetstream_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// The stream's limit follows the room while appends wait for it, and what is
// stored is never given up.
func TestRoom(t *testing.T) {
	h := newHost(t)
	var room atomic.Int64
	room.Store(64 << 10)
	j := h.open(func(c *jetstream.Config) { c.Own, c.MaxBytes, c.Room = true, room.Load(), room.Load })
	var now clock
	const n = 60
	events := make([]event.Event, n)
	for i := range events {
		events[i] = (&object{name: fmt.Sprint("o", i)}).event(&now, event.Added)
		events[i].Data = []byte(`{"object":"` + strings.Repeat("x", 2000) + `"}`)
	}
	done := make(chan error, 1)
	go func() { done <- j.Append(t.Context(), events) }()
	until(t, "the journal is full", func() bool { return j.Stats().Blocked == 1 })

	room.Store(1 << 20)
	j.Look(t.Context())
	if err := <-done; err != nil {
		t.Fatalf("Append: %v", err)
	}
	if got := j.Stats().Capacity; got != 1<<20 {
		t.Errorf("capacity is %d", got)
	}

	room.Store(1)
	j.Look(t.Context())
	stream, err := h.shared().Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	if info := stream.CachedInfo(); info.State.Msgs != n || info.Config.MaxBytes != int64(info.State.Bytes) {
		t.Errorf("without room %d messages in %d bytes are left of %d, bounded at %d", info.State.Msgs, info.State.Bytes, n, info.Config.MaxBytes)
	}
}
