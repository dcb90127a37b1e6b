package webhook_test

import (
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
	e := unstarted(t, m.behave)
	e.Config.Handler = m.wrap(e.Config.Handler)
	e.Start()
	var s sink.Sink // the last one that was opened
	return &sinktest.Destination{
		Open: func(t *testing.T) sink.Sink {
			t.Helper()
			c := config(t, e.URL, func(c *webhook.Config) {
				c.Timeout = 20 * time.Second
				change(c)
			})
			var err error
			s, err = c.Open(t.Context(), sinktest.Env(t))
			if err != nil {
				t.Fatal(err)
			}
			return s
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
