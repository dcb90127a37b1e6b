package page_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/informd/informd/internal/page"
)

// TestIdleTailOverHTTP2: a tail without events stays open for longer than a client may take to read.
func TestIdleTailOverHTTP2(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != ":\n\n:\n\n" || answer.ProtoMajor != 2 {
		t.Errorf("%s %q, %v", answer.Proto, text, err)
	}
}
