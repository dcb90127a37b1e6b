package webhook_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

// TestEveryStatusIsClassified: what an answer means for an event, if the endpoint has
// accepted others before, and what an operator can do.
func TestEveryStatusIsClassified(t *testing.T) {
	permanent := map[int]bool{400: true, 413: true, 422: true}
	passing := map[int]bool{401: true, 403: true, 404: true, 405: true, 407: true, 408: true, 410: true, 415: true, 421: true, 425: true, 426: true, 429: true}
	says := map[int]string{
		400: "Bad Request", 401: "check headers", 403: "signing.keyFile", 404: "check url", 405: "check url", 410: "accepts no more events",
		415: "application/cloudevents+json", 301: "set url", 304: "no address", 307: "not followed",
	}
	var refusing atomic.Int64
	e := serve(t, func(_ int, w http.ResponseWriter, _ request) bool {
		code := int(refusing.Load())
		if code != 0 {
			w.WriteHeader(code)
		}
		return code == 0
	})
	s := open(t, e.URL, func(c *webhook.Config) { c.Compression = compress.Gzip })
	events := sinktest.Events(1)
	for code := 300; code < 600; code++ {
		refusing.Store(0)
		sinktest.MustWrite(t, s, events)
		refusing.Store(int64(code))
		_, err := s.Write(t.Context(), events)
		want := "passing"
		switch {
		case permanent[code]:
			want = "permanent"
		case code/100 == 4 && !passing[code]:
			want = "unknown"
		}
		if got := sinktest.Kind(err); got != want {
			t.Errorf("status %d is %s (%v), want %s", code, got, err, want)
		}
		wantError(t, err, permanent[code], strconv.Itoa(code), says[code], e.Listener.Addr().String())
		if code == http.StatusUnsupportedMediaType {
			wantError(t, err, false, "gzip", "compression")
		}
	}
}

// TestRefusedAmongOthers: for a status that may be about one event the sink finds out which
// one of a request it is about.
func TestRefusedAmongOthers(t *testing.T) {
	const bad = 4
	events := sinktest.Events(8)
	events[bad].Data = []byte(`{"object":{"poison":true}}`)
	e := serve(t, func(_ int, w http.ResponseWriter, r request) bool {
		if !strings.Contains(string(r.Plain), "poison") {
			return true
		}
		w.WriteHeader(http.StatusConflict)
		return false
	})
	s := open(t, e.URL, func(c *webhook.Config) { c.Batch = len(events) })
	n, err := s.Write(t.Context(), events)
	if n != bad || sinktest.Kind(err) != "unknown" {
		t.Fatalf("Write = %d, %v (%s), want %d and an unknown error", n, err, sinktest.Kind(err), bad)
	}
	sinktest.MustWrite(t, s, events[bad+1:])
}

// TestLongHeaders: the API server does not bound every name. An event whose name an endpoint
// refuses as a header can never be delivered. An endpoint that refuses an event with usual
// headers has another reason, and informd tries again.
func TestLongHeaders(t *testing.T) {
	for name, tt := range map[string]struct {
		code, bytes int
		permanent   bool
	}{
		"431 of a long name": {http.StatusRequestHeaderFieldsTooLarge, 8_000, true},
		"400 of a long name": {http.StatusBadRequest, 8_000, true},
		"431 of a usual one": {http.StatusRequestHeaderFieldsTooLarge, 253, false},
		"400 of a usual one": {http.StatusBadRequest, 253, false},
		"503 of a long name": {http.StatusServiceUnavailable, 8_000, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, func(_ int, w http.ResponseWriter, _ request) bool {
				w.WriteHeader(tt.code)
				return false
			})
			s := open(t, e.URL, func(c *webhook.Config) { c.Format = "binary" })
			events := sinktest.Events(1)
			events[0].Name = strings.Repeat("n", tt.bytes)
			_, err := s.Write(t.Context(), events)
			wantError(t, err, tt.permanent)
		})
	}
}

// TestLongHeadersOverHTTP2: there the client does not even send what the endpoint does not take.
func TestLongHeadersOverHTTP2(t *testing.T) {
	e := unstarted(t, nil)
	e.EnableHTTP2 = true
	e.Config.MaxHeaderBytes = 8 << 10
	e.StartTLS()
	s := open(t, e.URL, func(c *webhook.Config) { c.Format, c.TLS.CAFile = "binary", e.CAFile(t) })
	events := sinktest.Events(3)
	events[1].Name = strings.Repeat("n", 12_000)
	n, err := s.Write(t.Context(), events)
	if n != 1 {
		t.Errorf("n = %d, want 1", n)
	}
	wantError(t, err, true, "header")
	if n, err := s.Write(t.Context(), events[2:]); n != 1 || err != nil {
		t.Errorf("Write = %d, %v", n, err)
	}
}
