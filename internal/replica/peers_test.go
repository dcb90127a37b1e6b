package replica_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/page"
	"github.com/informd/informd/internal/replica"
)

func forwardTo(leader string) http.Handler {
	p := replica.Peers{Transport: http.DefaultTransport, Token: func() (string, error) { return "the token of all replicas", nil }}
	return p.Forward(leader, slog.New(slog.DiscardHandler))
}

func get(t *testing.T, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	r.Header.Set("Cookie", "of=the client")
	return http.DefaultClient.Do(r)
}

// TestForward: the leader gets the request with the token of the replicas and nothing else of the client's, and
// the client what the leader sends, when it sends it.
func TestForward(t *testing.T) {
	more := make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the token of all replicas" || r.Header.Get("Cookie") != "" || r.Header.Get("X-Forwarded-For") != "" {
			t.Errorf("headers %v", r.Header)
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, r.URL.RequestURI()+"\n")
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, "more\n")
	}))
	defer leader.Close()
	follower := httptest.NewServer(forwardTo(strings.TrimPrefix(leader.URL, "http://")))
	defer follower.Close()
	answer, err := get(t, follower.URL+"/history?object=pods%2Fa")
	must(t, err)
	defer answer.Body.Close()
	const want = "/history?object=pods%2Fa\n"
	first := make([]byte, len(want))
	if _, err := io.ReadFull(answer.Body, first); err != nil || string(first) != want || answer.StatusCode != http.StatusTeapot {
		t.Errorf("%d %q, %v", answer.StatusCode, first, err)
	}
	close(more)
	if rest, err := io.ReadAll(answer.Body); err != nil || string(rest) != "more\n" {
		t.Errorf("then %q, %v", rest, err)
	}
}

// TestForwardEnds: two replicas that each take the other for the leader answer, and so does one whose leader is
// gone. A client that goes ends the request to the leader.
func TestForwardEnds(t *testing.T) {
	var other http.Handler
	second := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { other.ServeHTTP(w, r) }))
	defer second.Close()
	first := httptest.NewServer(forwardTo(strings.TrimPrefix(second.URL, "http://")))
	defer first.Close()

	other = forwardTo(strings.TrimPrefix(first.URL, "http://"))
	unavailable(t, first.URL)

	gone := make(chan struct{})
	other = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	answer, err := get(t, first.URL)
	must(t, err)
	_ = answer.Body.Close()
	<-gone

	second.Close()
	unavailable(t, first.URL)
}

func unavailable(t *testing.T, url string) {
	t.Helper()
	answer, err := get(t, url)
	must(t, err)
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "follows") {
		t.Errorf("%s %q, %v", answer.Status, text, err)
	}
}

// TestForwardWithoutToken: a token file that cannot be read is no reason to ask without one.
func TestForwardWithoutToken(t *testing.T) {
	p := replica.Peers{Transport: http.DefaultTransport, Token: func() (string, error) { return "", errors.New("no such file") }}
	w := httptest.NewRecorder()
	p.Forward("127.0.0.1:1", slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tail", http.NoBody))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "no such file") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// TestIdleTailOverHTTP2: a tail without events stays open for longer than a client may take to read, at the leader
// and through a follower.
func TestIdleTailOverHTTP2(t *testing.T) {
	t.Parallel()
	idle := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := page.NewSender(w)
		for range 2 {
			if _, err := io.WriteString(out, page.Beat); err != nil {
				t.Error(err)
			}
			select {
			case <-time.After(page.Patience + time.Second):
			case <-r.Context().Done():
			}
		}
	})
	leader := httptest.NewServer(idle)
	t.Cleanup(leader.Close)
	follower := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwardTo(strings.TrimPrefix(leader.URL, "http://")).ServeHTTP(page.Patient(w), r)
	})
	for name, handler := range map[string]http.Handler{"leader": idle, "follower": follower} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(handler)
			server.EnableHTTP2 = true
			server.StartTLS()
			t.Cleanup(server.Close)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
			must(t, err)
			answer, err := server.Client().Do(r)
			must(t, err)
			defer answer.Body.Close()
			if text, err := io.ReadAll(answer.Body); err != nil || string(text) != ":\n\n:\n\n" || answer.ProtoMajor != 2 {
				t.Errorf("%s %q, %v", answer.Proto, text, err)
			}
		})
	}
}
