package page_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
