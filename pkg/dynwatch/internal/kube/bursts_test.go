package kube_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// stream opens a watch on a server that writes what is sent to it, each piece by itself.
func stream(t *testing.T, delay time.Duration, secure bool) (body io.Reader, pieces chan<- []byte, end func()) {
	t.Helper()
	all := make(chan []byte)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w)
		err := flush.Flush()
		for err == nil {
			select {
			case piece := <-all:
				_, err = w.Write(piece)
				err = errors.Join(err, flush.Flush())
			case <-r.Context().Done():
				return
			}
		}
	}))
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	c, err := kube.NewClients(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: secure}}, slog.New(slog.DiscardHandler))
	must(t, err)
	t.Cleanup(c.Close)
	c.MaxDelay = delay
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	traced, gather := c.Bursts(ctx)
	request, err := http.NewRequestWithContext(traced, http.MethodGet, server.URL, http.NoBody)
	must(t, err)
	response, err := c.Apart.Do(request)
	must(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	gather()
	return response.Body, all, cancel
}

// TestBursts: pieces that come one after the other are read together, and all of them.
func TestBursts(t *testing.T) {
	const all = 400
	piece := bytes.Repeat([]byte("x"), 100)
	for name, secure := range map[string]bool{"TLS": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			const delay = 50 * time.Millisecond
			body, pieces, _ := stream(t, delay, secure)
			go func() {
				for range all {
					pieces <- piece
					<-time.After(time.Millisecond)
				}
			}()
			began := time.Now() // a busy machine sends for longer, and the reader waits the more often
			buffer, reads := make([]byte, 64<<10), 0
			for got := 0; got < all*len(piece); reads++ {
				read, err := body.Read(buffer)
				must(t, err)
				got += read
			}
			if took := time.Since(began); reads > 10+4*int(took/delay) {
				t.Errorf("%d reads of %d pieces in %v", reads, all, took)
			}
		})
	}
}

// TestNoBurstAfterAPause: what comes after a pause is read at once.
func TestNoBurstAfterAPause(t *testing.T) {
	const delay = time.Second
	body, pieces, _ := stream(t, delay, true)
	for range 3 {
		<-time.After(delay + delay/4)
		began := time.Now()
		pieces <- []byte("x")
		if _, err := io.ReadFull(body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > delay/2 {
			t.Errorf("read after %v", took)
		}
	}
}

// TestBurstsDoNotLimitTheRate: a stream without pauses is not slowed down. If each wait gathered
// no more than the socket holds, it would take minutes.
func TestBurstsDoNotLimitTheRate(t *testing.T) {
	const size = 64 << 20
	body, pieces, _ := stream(t, time.Second, true)
	go func() {
		piece := make([]byte, 16<<10)
		for range size / len(piece) {
			pieces <- piece
		}
	}()
	began := time.Now()
	if _, err := io.CopyN(io.Discard, body, size); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("%d bytes took %v", size, took)
	}
}

// TestEndOfABurst: a watch that ends does not wait for the end of its delay.
func TestEndOfABurst(t *testing.T) {
	const delay = time.Minute
	body, pieces, end := stream(t, delay, true)
	pieces <- []byte("x")
	if _, err := io.ReadFull(body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	time.AfterFunc(50*time.Millisecond, end)
	if _, err := body.Read(make([]byte, 1)); err == nil {
		t.Error("a read of a watch that has ended")
	}
	if took := time.Since(began); took > delay/2 {
		t.Errorf("it ended after %v", took)
	}
}

// TestDialerOfTheCaller: separate connections use the dialer and the certificates that a wrapper of
// the caller sets.
func TestDialerOfTheCaller(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var dialled atomic.Int64
	config := &rest.Config{Host: server.URL, WrapTransport: func(rt http.RoundTripper) http.RoundTripper {
		if transport := kube.TransportOf(rt); transport != nil {
			dial := transport.DialContext
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				dialled.Add(1)
				return dial(ctx, network, address)
			}
			transport.TLSClientConfig = transport.TLSClientConfig.Clone()
			transport.TLSClientConfig.RootCAs = x509.NewCertPool()
			transport.TLSClientConfig.RootCAs.AddCert(server.Certificate())
		}
		return rt
	}, TLSClientConfig: rest.TLSClientConfig{ServerName: "example.com"}}
	c, err := kube.NewClients(config, slog.New(slog.DiscardHandler))
	must(t, err)
	defer c.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	must(t, err)
	response, err := c.Apart.Do(request)
	must(t, err)
	if err := response.Body.Close(); err != nil || dialled.Load() != 1 {
		t.Errorf("%d connections by the caller's dialer, want 1; %v", dialled.Load(), err)
	}
}
