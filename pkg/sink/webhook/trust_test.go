package webhook_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

// mostRefused is how many events in a row an endpoint may refuse for good.
const mostRefused = 10

// fickle is an endpoint that refuses everything unless it is willing.
func fickle(t *testing.T, code int) (e *endpointtest.Server, willing *atomic.Bool) {
	t.Helper()
	willing = new(atomic.Bool)
	return serve(t, func(_ int, w http.ResponseWriter, _ request) bool {
		if !willing.Load() {
			w.WriteHeader(code)
		}
		return willing.Load()
	}), willing
}

// discard writes as package deliver does, without patience: it drops what can never be
// delivered, up to the first event that is worth another try.
func discard(t *testing.T, s sink.Sink, events []event.Event) (dead int, err error) {
	t.Helper()
	for rest := events; len(rest) > 0; {
		n, err := s.Write(t.Context(), rest)
		rest = rest[n:]
		if err != nil && !sink.IsPermanent(err) {
			return dead, err
		}
		if err != nil {
			dead++
			rest = rest[1:]
		}
	}
	return dead, nil
}

// TestRefusesEverything: an endpoint that refuses whatever it gets, as with the
// wrong secret, makes few dead letters if it worked before, and none otherwise.
func TestRefusesEverything(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType} {
		for _, batch := range []int{1, 7, 100} {
			t.Run(fmt.Sprintf("%d, batch %d", code, batch), func(t *testing.T) {
				most := mostRefused
				if code == http.StatusUnsupportedMediaType {
					most = 0
				}
				e, willing := fickle(t, code)
				s := open(t, e.URL, func(c *webhook.Config) { c.Batch = batch })
				events := sinktest.Events(100)
				for range 30 {
					if dead, err := discard(t, s, events); dead != 0 || err == nil {
						t.Fatalf("%d dead letters (%v) of an endpoint that never took anything", dead, err)
					}
				}
				for range 2 { // it heals, and fails again
					willing.Store(true)
					if dead, err := discard(t, s, events); dead != 0 || err != nil {
						t.Fatalf("%d dead letters, %v", dead, err)
					}
					willing.Store(false)
					if dead, err := discard(t, s, events); dead != most || err == nil {
						t.Errorf("%d dead letters (%v), want %d and an error that passes", dead, err, most)
					}
					if dead, err := discard(t, s, events); dead != 0 || err == nil {
						t.Errorf("%d dead letters more (%v)", dead, err)
					}
				}
			})
		}
	}
}

// TestRefusedAtFirst has the endpoint refuse the first event that it ever gets. That
// event waits until another one shows that it is to blame.
func TestRefusedAtFirst(t *testing.T) {
	for _, batch := range []int{1, 10} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			e := serve(t, func(_ int, w http.ResponseWriter, r request) bool {
				refused := strings.Contains(string(r.Body), `"name":"poison"`)
				if refused {
					w.WriteHeader(http.StatusBadRequest)
				}
				return !refused
			})
			s := open(t, e.URL, func(c *webhook.Config) { c.Batch = batch })
			events := sinktest.Events(3)
			events[0].Name = "poison"
			_, err := s.Write(t.Context(), events)
			wantError(t, err, false, "accepted nothing else", "signing.keyFile")
			sinktest.MustWrite(t, s, events[2:])
			_, err = s.Write(t.Context(), events)
			wantError(t, err, true, "Bad Request")
		})
	}
}

// TestRefusesAllLanes counts the dead letters of lanes that are refused at the same
// time.
func TestRefusesAllLanes(t *testing.T) {
	e, willing := fickle(t, http.StatusBadRequest)
	s := open(t, e.URL, nil)
	willing.Store(true)
	if _, err := discard(t, s, sinktest.Events(1)); err != nil {
		t.Fatal(err)
	}
	willing.Store(false)
	var dead atomic.Int64
	var lanes sync.WaitGroup
	for range webhook.Driver().Lanes {
		lanes.Go(func() {
			n, err := discard(t, s, sinktest.Events(50))
			if err == nil {
				t.Error("no lane stopped")
			}
			dead.Add(int64(n))
		})
	}
	lanes.Wait()
	if got := dead.Load(); got != mostRefused {
		t.Errorf("%d dead letters, want %d", got, mostRefused)
	}
}

// TestAnswerRepeatsSecrets has an endpoint say what it got in every form it can
// think of, with several statuses. Then it hangs up, and at last is gone.
func TestAnswerRepeatsSecrets(t *testing.T) {
	const canary = "canary"
	statuses := []int{http.StatusNotFound, http.StatusInternalServerError, http.StatusBadRequest}
	tests := map[string]struct {
		user, path string
		header     string
		says       bool // the log has what the endpoint said
	}{
		"nothing":      {says: true},
		"root":         {path: "/", says: true},
		"path":         {path: "/services/T0/canary%2Fpath"},
		"short path":   {path: "/canary"},
		"query":        {path: "/?token=canary%20query&v=1"},
		"bare query":   {path: "?canary+query"},
		"user":         {user: "canary-user@"},
		"password":     {user: "u:canary%40password@"},
		"header":       {header: `Bearer "canary/header"`},
		"short header": {header: "canary"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := int(requests.Add(1))
				if n > len(statuses) {
					panic(http.ErrAbortHandler)
				}
				if got := r.Header.Get("X-Key"); got != tt.header {
					t.Errorf("X-Key is %q, want %q", got, tt.header)
				}
				user, password, _ := r.BasicAuth()
				if want, _ := url.PathUnescape(strings.TrimSuffix(tt.user, "@")); want != "" && !strings.Contains(user+":"+password, want) {
					t.Errorf("the user is %s:%s, want %s", user, password, want)
				}
				w.WriteHeader(statuses[n-1])
				_, _ = fmt.Fprintln(w, "I got", r.URL, r.URL.Path, r.URL.Query(), user, password, strings.ToUpper(r.URL.String()), r.Header)
			}))
			defer server.Close()
			s := open(t, strings.Replace(server.URL, "http://", "http://"+tt.user, 1)+tt.path, func(c *webhook.Config) {
				if tt.header != "" {
					c.Headers = map[string]sink.Secret{"X-Key": sink.NewSecret(tt.header)}
				}
			})
			for i := range len(statuses) + 2 {
				if i == len(statuses)+1 {
					server.Close()
				}
				_, err := s.Write(t.Context(), sinktest.Events(1))
				if wantError(t, err, false); i == 0 {
					wantError(t, err, false, "404 Not Found", "check url")
				}
				if text := strings.ToLower(err.Error()); strings.Contains(text, canary) || strings.Contains(text, "basic ") {
					t.Errorf("the error shows a secret: %v", err)
				}
				if strings.Contains(err.Error(), "I got") {
					t.Errorf("the error shows the answer: %v", err)
				}
				if answer := sink.Answer(err); strings.Contains(answer, "I got") != (tt.says && i < len(statuses)) {
					t.Errorf("the log has the answer: %t: %q", !tt.says, answer)
				}
			}
		})
	}
}
