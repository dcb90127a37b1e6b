package webhook_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

// relay stands between the sink and an endpoint. It can let the connections that
// it has go silent, as a firewall does that forgets them.
type relay struct{ generation atomic.Int64 }

func (r *relay) start(t *testing.T, to string) (address string) {
	t.Helper()
	return sinktest.Listen(t, func(in net.Conn) {
		generation := r.generation.Load()
		out, err := new(net.Dialer).DialContext(context.WithoutCancel(t.Context()), "tcp", to)
		if err != nil {
			t.Error(err)
			_ = in.Close()
			return
		}
		var back sync.WaitGroup
		back.Go(func() { r.copy(in, out, generation) })
		r.copy(out, in, generation)
		back.Wait()
	})
}

// copy copies until silence, and from then on reads only.
func (r *relay) copy(to, from net.Conn, generation int64) {
	defer func() { _, _ = from.Close(), to.Close() }() // the test may have done so
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if generation != r.generation.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestSilentConnection lets the connection die without a word while new ones work.
func TestSilentConnection(t *testing.T) {
	for proto, version2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(proto, func(t *testing.T) {
			e := unstarted(t, nil)
			e.EnableHTTP2 = version2
			e.TLS = &tls.Config{}
			e.StartTLS()
			var r relay
			s := open(t, "https://"+r.start(t, e.Listener.Addr().String()), func(c *webhook.Config) {
				c.Timeout = 300 * time.Millisecond
				c.TLS.CAFile = e.CAFile(t)
			})
			for round := range 3 {
				failures := 0
				for {
					_, err := s.Write(t.Context(), sinktest.Events(1))
					if err == nil {
						break
					}
					wantError(t, err, false)
					if failures++; failures > 10 {
						t.Fatalf("round %d: %d attempts failed on a dead connection: %v", round, failures, err)
					}
				}
				r.generation.Add(1) // the present connections carry nothing more, without an end
			}
			if kept, _ := e.Requests(); kept[0].Proto != proto {
				t.Errorf("the protocol is %s", kept[0].Proto)
			}
		})
	}
}

// TestClosedConnection closes a connection that has had requests while the next one is on it, as an
// endpoint does when its limit of idle time passes: the sink uses another connection at once. A new
// connection that is closed is a failed attempt.
func TestClosedConnection(t *testing.T) {
	e := serve(t, func(n int, _ http.ResponseWriter, _ request) bool {
		if n == 1 || n == 3 || n == 4 {
			panic(http.ErrAbortHandler)
		}
		return true
	})
	s := open(t, e.URL, nil)
	events := sinktest.Events(4)
	sinktest.MustWrite(t, s, events[:2])
	if n, err := s.Write(t.Context(), events[2:3]); n != 0 || err == nil {
		t.Fatalf("Write returned %d and %v, want 0 and an error: two connections were closed", n, err)
	}
	sinktest.MustWrite(t, s, events[2:])
	kept, tried := e.Requests()
	if diff := cmp.Diff(sinktest.EventIDs(events), sinktest.IDs(records(t, e))); diff != "" || len(kept) != 4 {
		t.Errorf("arrived (-want +got):\n%s", diff)
	}
	if lost, again := tried[1].Header.Get("Webhook-Id"), tried[2].Header.Get("Webhook-Id"); lost != again {
		t.Errorf("Webhook-Id %q, then %q", lost, again)
	}
}

// TestConnectionsClosedAtOnce closes every connection after its answer, so that some requests are
// on their way by then. One that is only half written is a failed attempt, and the next one works.
func TestConnectionsClosedAtOnce(t *testing.T) {
	e := serve(t, nil)
	s := open(t, e.URL, nil)
	events := sinktest.Events(1)
	events[0].Data = []byte(`{"object":"` + strings.Repeat("x", 64<<10) + `"}`)
	for range 50 {
		if _, err := s.Write(t.Context(), events); err != nil {
			wantError(t, err, false)
			sinktest.MustWrite(t, s, events)
		}
		e.CloseClientConnections()
	}
}

// TestUnfinishedHandshake has an endpoint accept connections and then say nothing:
// what the attempts leave behind must go.
func TestUnfinishedHandshake(t *testing.T) {
	const attempts = 20
	var accepted, ended atomic.Int64
	over := make(chan struct{}, 1000)
	address := sinktest.Listen(t, func(conn net.Conn) {
		accepted.Add(1)
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		ended.Add(1)
		over <- struct{}{}
	})
	s := open(t, "https://"+address, func(c *webhook.Config) { c.Timeout = 50 * time.Millisecond })
	for range attempts {
		_, err := s.Write(t.Context(), sinktest.Events(1))
		wantError(t, err, false)
	}
	deadline := time.After(time.Minute)
	for ended.Load() < accepted.Load() {
		select {
		case <-over:
		case <-deadline:
			t.Fatalf("%d of %d connections are still open", accepted.Load()-ended.Load(), accepted.Load())
		}
	}
}

// TestSwitchedProtocol has an endpoint answer 101, keep the connection and say nothing:
// the write fails, and the connection is closed.
func TestSwitchedProtocol(t *testing.T) {
	const patience = time.Minute
	closed := make(chan error, 1)
	e := serve(t, func(_ int, w http.ResponseWriter, _ request) bool {
		conn, stream, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return false
		}
		defer func() { _ = conn.Close() }()
		_, _ = stream.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: silence\r\n\r\n")
		_ = stream.Flush()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, err = stream.ReadByte()
		closed <- err
		return false
	})
	s := open(t, e.URL, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	written := make(chan error, 1)
	go func() {
		_, err := s.Write(ctx, sinktest.Events(1))
		written <- err
	}()
	select {
	case err := <-written:
		wantError(t, err, false, "answers 101 Switching Protocols", "set url")
	case <-ctx.Done():
		t.Fatal("the write has not ended with its context")
	}
	if err := <-closed; err == nil || err.Error() != "EOF" {
		t.Errorf("the endpoint reads %v, want the end of the connection", err)
	}
}
