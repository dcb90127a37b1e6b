package retention

import (
	"maps"
	"sync"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal"
)

// shortAt is the share of the stream's limit, in percent, from which on it is short.
const shortAt = 90

// Holding is what the stream of events held and could hold when last looked at.
type Holding struct {
	Events, Bytes uint64
	Capacity      uint64 // in bytes; 0: not bounded
}

// isShort reports whether the stream has nearly reached its limit.
func (h Holding) isShort() bool { return h.Capacity > 0 && h.Bytes >= h.Capacity/100*shortAt }

// Space is what the stream of events holds, and what was removed unread to free space. Its
// methods may be called concurrently.
type Space struct {
	// short has one signal if the stream runs short of space.
	short chan struct{}

	mu    sync.Mutex
	holds Holding
	// dropped counts the events that share has removed unread, by namespace.
	dropped map[string]uint64
}

// NewSpace returns a Space that knows nothing yet.
func NewSpace() *Space { return &Space{short: make(chan struct{}, 1), dropped: map[string]uint64{}} }

// Set takes the newest state of the stream, and reports whether it is short of space.
func (s *Space) Set(info *js.StreamInfo) (short bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = Holding{Events: info.State.Msgs, Bytes: info.State.Bytes, Capacity: uint64(max(info.Config.MaxBytes, 0))}
	return s.holds.isShort()
}

// SignalShort has the janitor make space.
func (s *Space) SignalShort() {
	select {
	case s.short <- struct{}{}:
	default:
	}
}

// Now returns the last known state of the stream.
func (s *Space) Now() Holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds
}

// drop counts events that were removed unread, by namespace.
func (s *Space) drop(events map[string]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	journal.AddDropped(s.dropped, events)
}

// DroppedEvents returns a copy of the counts, nil if there are none.
func (s *Space) DroppedEvents() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.dropped) == 0 {
		return nil
	}
	return maps.Clone(s.dropped)
}
