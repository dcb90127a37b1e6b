package webhook_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

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
			s := open(t, e.URL, func(c *webhook.Config) { c.Format = webhook.Binary })
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
	s := open(t, e.URL, func(c *webhook.Config) { c.Format, c.TLS.CAFile = webhook.Binary, e.CAFile(t) })
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
