package otlp_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/otlp"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// moods is what the conformance suite asks of a destination.
type moods struct {
	mu     sync.Mutex
	room   int           // events it still takes; negative is no limit
	healed chan struct{} // closed by Heal; nil if not stalled
	busy   int           // requests that the endpoint has not answered
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
		m.count(1)
		defer m.count(-1)
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

func (m *moods) count(by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy += by
}

// settled is a sink whose endpoint is done with a request that was given up before
// the next one is sent. HTTP knows no order between them.
type settled struct {
	sink.Sink
	moods *moods
}

func (s settled) Write(ctx context.Context, batch []event.Event) (int, error) {
	n, err := s.Sink.Write(ctx, batch)
	if ctx.Err() == nil {
		return n, err
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	quiet := 0
	for end := time.Now().Add(100 * time.Millisecond); quiet < 10 && time.Now().Before(end); <-poll.C {
		s.moods.mu.Lock()
		if quiet++; s.moods.busy > 0 {
			quiet = 0
		}
		s.moods.mu.Unlock()
	}
	return n, err
}

func (m *moods) behave(_ int, w http.ResponseWriter, r request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	events := len(flat(r.data))
	switch {
	case r.isAbout("appetizer"):
		accept(w, r, nil)
		return false
	case r.isAbout("poison"):
		fail(w, r, http.StatusBadRequest, 3)
		return false
	case m.room >= 0 && m.room < events:
		m.room = 0
		fail(w, r, http.StatusServiceUnavailable, 14)
		return false
	case m.room > 0:
		m.room -= events
	}
	accept(w, r, nil)
	return true
}

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(c *otlp.Config){
		"http": func(*otlp.Config) {},
		"grpc": useGRPC,
		"small, gzip": func(c *otlp.Config) {
			c.Protocol, c.Compression, c.MaxRequestBytes = otlp.GRPC, compress.Gzip, 4*sink.KiB
		},
	} {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, sinktest.Target{
				Lanes: otlp.Driver().Lanes,
				Setup: func(t *testing.T) *sinktest.Destination {
					t.Helper()
					return conformant(t, change)
				},
				IgnoreGoroutines: []goleak.Option{
					goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
					goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"),
					goleak.IgnoreAnyFunction("net/http.(*http2serverConn).serve"),
					goleak.IgnoreAnyFunction("net/http.(*http2serverConn).readFrames"),
				},
			})
		})
	}
}

func conformant(t *testing.T, change func(c *otlp.Config)) *sinktest.Destination {
	t.Helper()
	m := &moods{room: -1}
	e := unstarted(t, m.behave)
	e.Config.Handler = m.wrap(e.Config.Handler)
	e.Start()
	var s sink.Sink // the last one that was opened
	return &sinktest.Destination{
		Open: func(t *testing.T) sink.Sink {
			t.Helper()
			options := config(t, e.URL, func(c *otlp.Config) {
				c.Timeout = 20 * time.Second
				change(c)
			})
			var err error
			s, err = options.Open(t.Context(), sinktest.Env(t))
			if err != nil {
				t.Fatal(err)
			}
			return settled{s, m}
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
