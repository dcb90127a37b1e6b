package daemon

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// TestClusterUID: only an API server can say that the uid may not be read. The answer of a
// proxy is an error, after which informd asks again.
func TestClusterUID(t *testing.T) {
	const (
		namespace = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"kube-system","uid":"the-uid"}}`
		status    = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":%q,"details":{"name":"kube-system","kind":"namespaces"},"code":%d}`
		page      = "<html><body>not here</body></html>"
	)
	for name, tt := range map[string]struct {
		code        int
		contentType string
		body        string
		uid         string
		fails       bool
	}{
		"answer":            {200, "application/json", namespace, "the-uid", false},
		"forbidden":         {403, "application/json", fmt.Sprintf(status, "Forbidden", 403), "", false},
		"not found":         {404, "application/json", fmt.Sprintf(status, "NotFound", 404), "", false},
		"proxy's 404":       {404, "text/html", page, "", true},
		"proxy's 403":       {403, "text/html", page, "", true},
		"proxy's JSON 404":  {404, "application/json", `{"error":"no route"}`, "", true},
		"proxy's plain 404": {404, "text/plain", "404 page not found", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				w.WriteHeader(tt.code)
				fmt.Fprint(w, tt.body)
			}))
			t.Cleanup(server.Close)
			uid, err := clusterUID(t.Context(), &rest.Config{Host: server.URL}, slog.New(slog.DiscardHandler))
			if uid != tt.uid || (err != nil) != tt.fails {
				t.Errorf("got %q, %v; want %q, an error: %t", uid, err, tt.uid, tt.fails)
			}
		})
	}
}
