package kube_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// TestCloseLeavesNoConnection closes clients while the server has not seen the end of a request
// with HTTP/2: its connection is not idle.
func TestCloseLeavesNoConnection(t *testing.T) {
	closed := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("protocol %s, want HTTP/2", r.Proto)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	clients, err := kube.NewClients(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, slog.New(slog.DiscardHandler))
	must(t, err)
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, server.URL, http.NoBody)
	must(t, err)
	response, err := clients.Shared.Do(r)
	must(t, err)
	clients.Close()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("the connection is open")
	}
	must(t, response.Body.Close())
	if response, err := clients.Shared.Do(r); err == nil {
		t.Error("closed clients can be used", response.Body.Close())
	}
}
