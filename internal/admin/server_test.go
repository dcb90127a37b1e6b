package admin_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/admin"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "informd_test_total", Help: "A test."})
	must(t, registry.Register(counter))
	counter.Add(3)
	o := options()
	o.Metrics = registry
	code, body := get(t, start(t, o), "/metrics")
	if code != http.StatusOK || !strings.Contains(body, "\ninformd_test_total 3\n") {
		t.Errorf("/metrics = %d\n%s", code, body)
	}
}

func TestOnlyReading(t *testing.T) {
	s := start(t, options(admin.Target{Target: "t", State: "live", Looked: true, Beat: time.Now()}))
	for _, path := range []string{"/healthz", "/readyz", "/status"} {
		for method, want := range map[string]int{http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405} {
			if code, _ := request(t, http.DefaultClient, method+" "+path, s.Address(), nil); code != want {
				t.Errorf("%s %s = %d, want %d", method, path, code, want)
			}
		}
	}
}

func TestHeadersAreBounded(t *testing.T) {
	s := start(t, options())
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Address())
	must(t, err)
	defer func() { _ = conn.Close() }()
	head := append([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Big: "), bytes.Repeat([]byte("a"), 64<<10)...)
	if _, err := conn.Write(append(head, "\r\n\r\n"...)); err != nil {
		return // closed while we were still writing: bounded as well
	}
	// A reset that follows the answer is no failure.
	if answer, _ := io.ReadAll(conn); !bytes.HasPrefix(answer, []byte("HTTP/1.1 431 ")) {
		t.Errorf("64 KiB of headers are answered with %.60q", answer)
	}
}

func TestListenErrorsSayWhatToDo(t *testing.T) {
	for name, listen := range map[string]string{"no port": "localhost", "no such port": "127.0.0.1:http-no"} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Listen = listen
			err := admin.New(o).Start()
			if err == nil {
				t.Fatal("Start has no error")
			}
			for _, want := range []string{listen, "admin.listen", "--admin-listen"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Start = %v, want it to say %q", err, want)
				}
			}
		})
	}
}

// TestShutdown waits for a request that is under way; when its time is over, it
// cuts the request off.
func TestShutdown(t *testing.T) {
	for name, patient := range map[string]bool{"patient": true, "impatient": false} {
		t.Run(name, func(t *testing.T) {
			entered, release := make(chan struct{}), make(chan struct{})
			o := options()
			o.Journal = func() admin.Journal {
				close(entered)
				<-release
				return admin.Journal{}
			}
			s := admin.New(o)
			must(t, s.Start())
			answered := make(chan error, 1)
			go func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address()+"/healthz", nil)
				if err != nil {
					answered <- err
					return
				}
				response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
				if err == nil {
					err = response.Body.Close()
				}
				answered <- err
			}()
			<-entered
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stopped := make(chan error, 1)
			go func() { stopped <- s.Shutdown(ctx) }()
			if patient {
				close(release)
			} else {
				cancel()
			}
			if err := <-stopped; (err == nil) != patient {
				t.Errorf("Shutdown = %v", err)
			}
			if err := <-answered; (err == nil) != patient {
				t.Errorf("the request's result = %v", err)
			}
			if !patient {
				close(release)
			}
		})
	}
}
