package webhook_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

// moods is what the conformance suite asks of a destination.
type moods struct {
	mu     sync.Mutex
	room   int           // events it still takes; negative is no limit
	healed chan struct{} // closed by Heal; nil if not stalled
}

func (m *moods) set(room int, stall bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.room = room
	switch {
	case stall:
		m.healed = make(chan struct{})
	case m.healed != nil:
		close(m.healed)
		m.healed = nil
	}
}

// wrap lets nothing through to next while stalled.
func (m *moods) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		healed := m.healed
		m.mu.Unlock()
		if healed != nil {
			select {
			case <-healed:
			case <-r.Context().Done():
			}
			// Too late in any case: what it did to the connection is not known.
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// settled is a sink whose endpoint is done with a request that was given up before
// the next one is sent. HTTP knows no order between them, and a busy machine can keep
// the first one waiting.
type settled struct {
	sink.Sink
	traffic *traffic
}

func (s settled) Write(ctx context.Context, batch []event.Event) (int, error) {
	n, err := s.Sink.Write(ctx, batch)
	if ctx.Err() != nil {
		s.traffic.settle()
	}
	return n, err
}

// traffic is the connections on which a request is, or may be about to come.
type traffic struct {
	mu   sync.Mutex
	busy map[net.Conn]bool
}

func (c *traffic) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateNew || state == http.StateActive {
		c.busy[conn] = true
	} else {
		delete(c.busy, conn)
	}
}

// settle waits until there are none, but not for a connection that stays unused, or an
// endpoint that is stalled.
func (c *traffic) settle() {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); <-poll.C {
		c.mu.Lock()
		busy := len(c.busy)
		c.mu.Unlock()
		if busy == 0 {
			return
		}
	}
}

func (m *moods) behave(_ int, w http.ResponseWriter, r request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case r.isAbout("appetizer"):
		return false
	case r.isAbout("poison"):
		w.WriteHeader(http.StatusBadRequest)
	case m.room >= 0 && m.room < r.events():
		m.room = 0
		w.WriteHeader(http.StatusInternalServerError)
	default:
		if m.room > 0 {
			m.room -= r.events()
		}
		return true
	}
	return false
}

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(c *webhook.Config){
		"one event":   func(*webhook.Config) {},
		"batches":     func(c *webhook.Config) { c.Batch = 10 },
		"gzip":        func(c *webhook.Config) { c.Batch, c.Compression = 10, compress.Gzip },
		"binary, zst": func(c *webhook.Config) { c.Format, c.Compression = webhook.Binary, compress.Zstd },
	} {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, sinktest.Target{
				Lanes: webhook.Driver().Lanes,
				Setup: func(t *testing.T) *sinktest.Destination {
					t.Helper()
					return conformant(t, change)
				},
				IgnoreGoroutines: []goleak.Option{
					goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
					goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"),
				},
			})
		})
	}
}

func conformant(t *testing.T, change func(c *webhook.Config)) *sinktest.Destination {
	t.Helper()
	m := &moods{room: -1}
	e, c := unstarted(t, m.behave), traffic{busy: map[net.Conn]bool{}}
	e.Config.ConnState = c.note
	e.Config.Handler = m.wrap(e.Config.Handler)
	e.Start()
	var s sink.Sink // the last one that was opened
	return &sinktest.Destination{
		Open: func(t *testing.T) sink.Sink {
			t.Helper()
			options := config(t, e.URL, func(c *webhook.Config) {
				c.Timeout = 20 * time.Second
				change(c)
			})
			var err error
			s, err = options.Open(t.Context(), sinktest.Env(t))
			if err != nil {
				t.Fatal(err)
			}
			return settled{s, &c}
		},
		Received: e.records,
		Break:    func(_ *testing.T, after int) { m.set(after, false) },
		Stall:    func(*testing.T) { m.set(-1, true) },
		Heal:     func(*testing.T) { m.set(-1, false) },
		Poison: func(t *testing.T) event.Event {
			t.Helper()
			// Only an endpoint that has taken something can refuse something else.
			good := sinktest.Events(1)
			good[0].Name = "appetizer"
			if _, err := s.Write(t.Context(), good); err != nil {
				t.Fatal(err)
			}
			p := sinktest.Events(1)[0]
			p.ID, p.UID, p.Name = "uid-poison:1", "uid-poison", "poison"
			return p
		},
	}
}
