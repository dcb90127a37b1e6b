package listwatch

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// balancer is a load balancer: each connection reaches the next of the servers.
type balancer struct {
	net.Listener

	targets []string
	conns   atomic.Int64
	moving  sync.WaitGroup
}

func (b *balancer) run() {
	for {
		client, err := b.Accept()
		if err != nil {
			b.moving.Wait()
			return
		}
		target := b.targets[int(b.conns.Add(1)-1)%len(b.targets)]
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
			b.moving.Go(func() {
				_, _ = io.Copy(way[0], way[1])
				_ = way[0].Close()
				_ = way[1].Close()
			})
		}
	}
}

// balanced starts two API servers behind one address. Lists say which one answers: at
// revision 1 or 2. Watches of the second one expire at once.
func balanced(t *testing.T, http2 bool) (*balancer, *Source) {
	t.Helper()
	b := &balancer{}
	for i := range 2 {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if !r.URL.Query().Has("watch") {
				fmt.Fprintf(w, `{"metadata":{"resourceVersion":"%d"},"items":[]}`, i+1)
				return
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		server.EnableHTTP2 = http2
		server.StartTLS()
		t.Cleanup(server.Close)
		b.targets = append(b.targets, server.Listener.Addr().String())
	}
	var err error
	if b.Listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.run()
	}()
	s := podSource(t, &rest.Config{Host: "https://" + b.Addr().String(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	t.Cleanup(func() {
		s.Clients.Close()
		_ = b.Close()
		<-ended // the connections are closed by then: no request uses them
	})
	return b, s
}

// TestAnotherConnectionIsNew: each question that is to reach another API server has a new
// connection, be a watch on the last one or not.
func TestAnotherConnectionIsNew(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			b, s := balanced(t, http2)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range 3 {
				if rv, err := s.Revision(ctx); rv != 1 || err != nil {
					t.Fatalf("revision %d: %v", rv, err)
				}
			}
			for i := range uint64(4) {
				if rv, err := s.RevisionElsewhere(ctx); rv != 2-i%2 || err != nil {
					t.Fatalf("question %d elsewhere reaches API server %d: %v", i, rv, err)
				}
			}
			before := b.conns.Load()
			for range 2 {
				w, err := s.Watch(ctx, 1, true)
				must(t, err)
				defer drain(w)
				defer w.Stop()
			}
			if rv, err := s.RevisionElsewhere(ctx); rv != 2 || err != nil {
				t.Errorf("beside two watches: API server %d, %v", rv, err)
			}
			if got := b.conns.Load() - before; got != 3 {
				t.Errorf("two watches and a question opened %d connections", got)
			}
			cancel()
		})
	}
}

// TestConnectionsEndWithTheClients: no connection is left open that no request uses.
func TestConnectionsEndWithTheClients(t *testing.T) {
	var open atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			open.Add(1)
		}
		if state == http.StateClosed {
			open.Add(-1)
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	s := podSource(t, &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	for _, ask := range []func(context.Context) (uint64, error){
		s.Revision, s.RevisionElsewhere,
		func(ctx context.Context) (uint64, error) { return s.List(ctx, &Listing{}, s.Frames, nil) },
	} {
		if _, err := ask(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if open.Load() == 0 {
		t.Error("no connection is kept")
	}
	s.Clients.Close()
	for deadline := time.Now().Add(time.Minute); open.Load() > 0; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are open", open.Load())
		}
	}
}
