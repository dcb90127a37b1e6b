package admin_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
)

// TestConnectionsAreBounded: somebody who opens connections without end loses them, and
// others are served meanwhile.
func TestConnectionsAreBounded(t *testing.T) {
	const bound, flood = 256, 400
	for name, encrypted := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			o := options(admin.Target{Target: "t", State: "live", Looked: true, Beat: time.Now()})
			var behaved *tls.Config
			if encrypted {
				dir := t.TempDir()
				o.TLS = config.AdminTLS{CertFile: filepath.Join(dir, "crt"), KeyFile: filepath.Join(dir, "key")}
				newAuthority(t).issue(t, o.TLS.CertFile, o.TLS.KeyFile, "server", 0)
				behaved = clientOf(t, admin.TLS(o.TLS))
			}
			s := start(t, o)
			// The one that behaves comes from another address, and keeps its connection. A client
			// of net/http may give up a connection for reasons of its own.
			from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
			kept, err := from.DialContext(t.Context(), "tcp", s.Address())
			must(t, err)
			if encrypted {
				kept = tls.Client(kept, behaved)
			}
			t.Cleanup(func() { _ = kept.Close() })
			answers := bufio.NewReader(kept)
			probe := func() {
				t.Helper()
				if _, err := io.WriteString(kept, "GET /healthz HTTP/1.1\r\nHost: "+s.Address()+"\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				response, err := http.ReadResponse(answers, nil)
				must(t, err)
				_, err = io.Copy(io.Discard, response.Body)
				if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("a probe: %s %v", response.Status, err)
				}
			}
			probe()
			for range flood {
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Address())
				must(t, err)
				defer func() { _ = conn.Close() }()
				if !encrypted {
					_, _ = conn.Write([]byte("GET /healthz HTTP/1.1\r\n")) // it may be closed already
				}
			}
			poll := time.NewTicker(5 * time.Millisecond)
			defer poll.Stop()
			for end := time.Now().Add(time.Minute); ; <-poll.C {
				closed := counter(t, s, "informd_admin_connections_closed_total")
				if closed >= flood-bound {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%v of %d connections were closed", closed, flood)
				}
			}
			probe()
		})
	}
}

// TestStatusIsBounded: at most four statuses are made at a time.
func TestStatusIsBounded(t *testing.T) {
	const most = 4
	entered, release := make(chan struct{}, most), make(chan struct{})
	o := options()
	o.Journal = func() admin.Journal {
		entered <- struct{}{}
		<-release
		return admin.Journal{}
	}
	s := start(t, o)
	codes := make(chan int, most)
	for range most {
		go func() {
			code := 0
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address()+"/status", nil)
			if err == nil {
				if response, err := http.DefaultClient.Do(request); err == nil {
					code = response.StatusCode
					_ = response.Body.Close()
				}
			}
			codes <- code
		}()
	}
	for range most {
		<-entered
	}
	if code, body := get(t, s, "/status"); code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d %s", code, body)
	}
	close(release)
	for range most {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
}

// counter is the sum of a counter of the server's own.
func counter(t *testing.T, s *admin.Server, name string) (sum float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	for _, c := range s.Collectors() {
		must(t, registry.Register(c))
	}
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
