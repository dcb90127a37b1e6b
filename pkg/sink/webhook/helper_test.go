package webhook_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

// request is what an endpoint got.
type request struct {
	header http.Header
	proto  string
	body   []byte
}

// endpoint is a real HTTP server that keeps what it accepts. What it does beside
// that is the test's choice.
type endpoint struct {
	*httptest.Server
	// behave answers the n-th request, counted from 0, and says whether the
	// endpoint keeps it. Nil: 200, and keep.
	behave func(n int, w http.ResponseWriter, r request) (keep bool)

	mu    sync.Mutex
	seen  int
	kept  []request
	tried []request
}

// serve starts an endpoint.
func serve(t *testing.T, behave func(n int, w http.ResponseWriter, r request) bool) *endpoint {
	t.Helper()
	e := unstarted(t, behave)
	e.Start()
	return e
}

func unstarted(t *testing.T, behave func(n int, w http.ResponseWriter, r request) bool) *endpoint {
	t.Helper()
	e := &endpoint{behave: behave}
	e.Server = httptest.NewUnstartedServer(e)
	e.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(t.Output(), nil), slog.LevelInfo)
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	got := request{r.Header, r.Proto, body}
	e.mu.Lock()
	n := e.seen
	e.seen++
	e.tried = append(e.tried, got)
	e.mu.Unlock()
	if e.behave != nil && !e.behave(n, w, got) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Context().Err() == nil {
		e.kept = append(e.kept, got)
	}
}

func (e *endpoint) requests() (kept, tried []request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]request(nil), e.kept...), append([]request(nil), e.tried...)
}

// records are the events that the endpoint kept, in order.
func (e *endpoint) records(t *testing.T) []sinktest.Record {
	t.Helper()
	kept, _ := e.requests()
	var all []sinktest.Record
	for _, r := range kept {
		all = append(all, decode(t, r)...)
	}
	return all
}

func decode(t *testing.T, r request) []sinktest.Record {
	t.Helper()
	var parts []json.RawMessage
	switch contentType := r.header.Get("Content-Type"); contentType {
	case event.ContentTypeJSON:
		parts = append(parts, r.body)
	case event.ContentTypeBatch:
		if err := json.Unmarshal(r.body, &parts); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("content type %q", contentType)
	}
	var all []sinktest.Record
	for _, part := range parts {
		record, err := sinktest.FromJSON(part)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, record)
	}
	return all
}

func ids(records []sinktest.Record) string {
	var all []string
	for _, r := range records {
		all = append(all, r.Attributes["id"])
	}
	return strings.Join(all, " ")
}

func idsOf(events []event.Event) string {
	var all []string
	for i := range events {
		all = append(all, events[i].ID)
	}
	return strings.Join(all, " ")
}

func config(t *testing.T, url string, change func(c *webhook.Config)) *webhook.Config {
	t.Helper()
	c, ok := webhook.Driver().New().(*webhook.Config)
	if !ok {
		t.Fatal("the driver's options are no *webhook.Config")
	}
	c.URL = sink.NewSecret(url)
	if change != nil {
		change(c)
	}
	if problems := c.Validate(); len(problems) > 0 {
		t.Fatalf("Validate: %v", problems)
	}
	return c
}

func open(t *testing.T, url string, change func(c *webhook.Config)) sink.Sink {
	t.Helper()
	s, err := config(t, url, change).Open(t.Context(), sinktest.Env(t))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// short makes attempts end soon.
func short(c *webhook.Config) { c.Timeout = 150 * time.Millisecond }

func writeFile(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// caFile writes the server's own certificate, which signs itself.
func caFile(t *testing.T, e *endpoint) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw}))
	return file
}

// wantError holds err to be of a kind, and to say the words.
func wantError(t *testing.T, err error, permanent bool, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("Write took everything, want an error")
	}
	if sink.IsPermanent(err) != permanent {
		t.Errorf("permanent: %t, want %t: %v", !permanent, permanent, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not say %q", err, word)
		}
	}
}
