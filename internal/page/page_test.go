package page_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/internal/page"
)

func TestFiles(t *testing.T) {
	for path, kind := range map[string]string{
		"/": "text/html", "/page/page.js": "javascript", "/page/diff.js": "javascript", "/page/dom.js": "javascript", "/page/charts.js": "javascript", "/page/page.css": "text/css", "/page/icon.svg": "image/svg+xml",
	} {
		w := httptest.NewRecorder()
		page.Files().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Type"), kind) {
			t.Errorf("GET %s = %d, %s; want %s", path, w.Code, w.Header().Get("Content-Type"), kind)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("GET %s: the policy is %q", path, policy)
		}
	}
	for _, path := range []string{"/other", "/page/none.js", "/page/../page.go"} {
		w := httptest.NewRecorder()
		page.Files().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code == http.StatusOK {
			t.Errorf("GET %s is served", path)
		}
	}
}

// TestDocumentHasNoInlineCode: the policy would refuse it.
func TestDocumentHasNoInlineCode(t *testing.T) {
	w := httptest.NewRecorder()
	page.Files().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	text := w.Body.String()
	for _, inline := range []string{"<style", " style=", " onclick", " onload", "<script>", "javascript:", "http://", "https://"} {
		if strings.Contains(text, inline) {
			t.Errorf("the document has %q", inline)
		}
	}
}

// TestPagesShareAState: many pages cost one rendering per interval.
func TestPagesShareAState(t *testing.T) {
	var rendered, dropped atomic.Int64
	ended := make(chan struct{})
	stream := &page.Stream{
		Render: func() []byte { rendered.Add(1); return []byte(`{"n":1}`) },
		Ended:  ended, Dropped: func() { dropped.Add(1) },
	}
	server := httptest.NewServer(stream)
	defer server.Close()
	const pages = 20
	began := time.Now()
	ends := make(chan error, pages)
	for range pages {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request) //nolint:bodyclose // by the reader below
		if err != nil {
			t.Fatal(err)
		}
		body := bufio.NewScanner(answer.Body)
		if !body.Scan() || body.Text() != `data: {"n":1}` {
			t.Fatalf("a page reads %q", body.Text())
		}
		go func() {
			for body.Scan() {
				continue // to the end
			}
			ends <- answer.Body.Close()
		}()
	}
	if n, most := rendered.Load(), 5+int64(time.Since(began)/time.Second); n > most {
		t.Errorf("%d pages that open together caused %d renderings, want at most %d", pages, n, most)
	}
	close(ended)
	for range pages {
		select {
		case err := <-ends:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a page is open after the end of the server")
		}
	}
	if dropped.Load() != 0 {
		t.Errorf("%d pages were dropped", dropped.Load())
	}
}

// TestPageThatDoesNotReadIsDropped: its request ends, and nothing waits in memory for it.
func TestPageThatDoesNotReadIsDropped(t *testing.T) {
	dropped := make(chan struct{})
	large := []byte(`"` + strings.Repeat("x", 32<<20) + `"`)
	stream := &page.Stream{Render: func() []byte { return large }, Ended: make(chan struct{}), Dropped: func() { close(dropped) }}
	server := httptest.NewServer(stream)
	defer server.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-dropped:
	case <-time.After(time.Minute):
		t.Fatal("a page that does not read holds its request")
	}
}
