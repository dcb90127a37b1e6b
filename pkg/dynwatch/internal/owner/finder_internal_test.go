package owner

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// TestLimitOfKinds: kinds count once, in however many namespaces they are followed.
func TestLimitOfKinds(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	c, err := kube.NewClients(&rest.Config{Host: server.URL}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	f := New(c, slog.New(slog.DiscardHandler))
	f.Start(listwatch.Timing{Backoff: time.Hour, DeniedCap: time.Hour})
	t.Cleanup(f.Stop)
	followed := func(number, namespace int) bool {
		return f.index(kind{group: "example.com", kind: fmt.Sprint("Kind", number)}, fmt.Sprint("team-", namespace)) != nil
	}
	for namespace := range 41 { // 205 indexes
		for number := range 5 {
			if !followed(number, namespace) {
				t.Fatalf("kind %d is not followed in namespace %d", number, namespace)
			}
		}
	}
	for number := range maxKinds {
		if !followed(number, 0) {
			t.Fatalf("kind %d is not followed", number)
		}
	}
	if followed(maxKinds, 0) {
		t.Errorf("more than %d kinds are followed", maxKinds)
	}
}
