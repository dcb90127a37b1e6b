package webhook_test

import (
	"bytes"
	"compress/gzip"
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

	"github.com/klauspost/compress/zstd"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

// request is what an endpoint got.
type request struct {
	header http.Header
	proto  string
	body   []byte // as it was sent
	plain  []byte // before compression
}

// events is how many events the request has.
func (r request) events() int {
	if r.header.Get("Ce-Id") != "" {
		return 1
	}
	return bytes.Count(r.plain, []byte(`"specversion"`))
}

// isAbout reports whether an object of that name is in it.
func (r request) isAbout(name string) bool {
	return r.header.Get("Ce-Name") == name || bytes.Contains(r.plain, []byte(`"name":"`+name+`"`))
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
	plain, err := unpack(r.Header.Get("Content-Encoding"), body)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	got := request{r.Header, r.Proto, body, plain}
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

func unpack(encoding string, body []byte) ([]byte, error) {
	switch encoding {
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case "zstd":
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return r.DecodeAll(body, nil)
	}
	return body, nil
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
	if r.header.Get("Ce-Id") != "" {
		record, err := sinktest.FromHeaders(r.header, r.plain)
		if err != nil {
			t.Fatal(err)
		}
		return []sinktest.Record{record}
	}
	var parts []json.RawMessage
	switch contentType := r.header.Get("Content-Type"); contentType {
	case event.ContentTypeJSON:
		parts = append(parts, r.plain)
	case event.ContentTypeBatch:
		if err := json.Unmarshal(r.plain, &parts); err != nil {
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
