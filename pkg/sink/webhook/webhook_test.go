package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

// hijack takes the connection away from the HTTP server.
func hijack(w http.ResponseWriter) net.Conn {
	controller := http.NewResponseController(w)
	conn, _, err := controller.Hijack()
	if err != nil {
		panic(err)
	}
	return conn
}

// drip sends text over and over, slowly, until the other end has had enough.
func drip(conn net.Conn, text string) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := conn.Write([]byte(text)); err != nil {
			return
		}
		<-ticker.C
	}
}

// TestMisbehaviour is about endpoints that do everything but answer.
func TestMisbehaviour(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	say := func(conn net.Conn, text string) {
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}
	tests := map[string]struct {
		behave    func(conn net.Conn)
		delivered bool   // there was a status, and it was 2xx
		says      string // the error, if not
	}{
		"never answers": {func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }, false, "no answer within 150ms"},
		"drips headers": {func(conn net.Conn) { say(conn, ok); drip(conn, "X-A: b\r\n") }, false, "no answer within 150ms"},
		"huge headers": {func(conn net.Conn) {
			_, _ = conn.Write([]byte(ok + "X-A: " + strings.Repeat("a", 1<<20) + "\r\n\r\n"))
		}, false, "exceeded"},
		"drips body": {func(conn net.Conn) {
			say(conn, ok+"Content-Length: 100000\r\n\r\n")
			drip(conn, "x")
		}, true, ""},
		"infinite body": {func(conn net.Conn) {
			say(conn, ok+"Transfer-Encoding: chunked\r\n\r\n")
			chunk := []byte("10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n")
			for {
				if _, err := conn.Write(chunk); err != nil {
					return
				}
			}
		}, true, ""},
		"refuses and drips body": {func(conn net.Conn) {
			say(conn, "HTTP/1.1 500 No\r\nContent-Length: 100000\r\n\r\n")
			drip(conn, "x")
		}, false, "500"},
		"is no HTTP server": {func(conn net.Conn) { say(conn, "220 mail.example.com ESMTP\r\n") }, false, "malformed"},
		"hangs up":          {func(net.Conn) {}, false, "EOF"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := serve(t, func(_ int, w http.ResponseWriter, _ request) bool {
				conn := hijack(w)
				tt.behave(conn)
				_ = conn.Close() // the sink may have closed it
				return false
			})
			// Where something else ends the Write, the timeout is longer than the bound below.
			timeout := func(c *webhook.Config) { c.Timeout = 30 * time.Second }
			if strings.Contains(tt.says, "no answer") {
				timeout = short
			}
			s := open(t, e.URL, timeout)
			started := time.Now()
			n, err := s.Write(t.Context(), sinktest.Events(1))
			if took := time.Since(started); took > 20*time.Second {
				t.Errorf("Write took %v", took)
			}
			if tt.delivered {
				if n != 1 || err != nil {
					t.Fatalf("Write returned %d and %v, want 1 and no error", n, err)
				}
				return
			}
			wantError(t, err, false, tt.says)
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an attempt's timeout looks like the end of the caller's context: %v", err)
			}
		})
	}
}

// TestLostAnswer resets the connection when the request has arrived: the
// repetition must be recognisable.
func TestLostAnswer(t *testing.T) {
	e := serve(t, func(n int, w http.ResponseWriter, _ request) bool {
		if n%2 == 1 {
			return true
		}
		conn := hijack(w)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // reset, not end
		}
		_ = conn.Close()
		return false
	})
	for name, batch := range map[string]int{"one event": 1, "batches": 10} {
		t.Run(name, func(t *testing.T) {
			s := open(t, e.URL, func(c *webhook.Config) { c.Batch = batch })
			_, before := e.Requests()
			for done, events := 0, sinktest.AllOps(); done < len(events); {
				n, err := s.Write(t.Context(), events[done:])
				done += n
				if sink.IsPermanent(err) {
					t.Fatal(err)
				}
			}
			_, tried := e.Requests()
			tried = tried[len(before):]
			for i := 0; i < len(tried); i += 2 {
				lost, again := tried[i], tried[i+1]
				if a, b := lost.Header.Get("Webhook-Id"), again.Header.Get("Webhook-Id"); a != b || a == "" {
					t.Errorf("webhook-id %q, then %q", a, b)
				}
				if !bytes.Equal(lost.Body, again.Body) {
					t.Errorf("the body was %s, then %s", lost.Body, again.Body)
				}
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	tests := map[string]struct {
		code     int
		header   string
		min, max time.Duration
	}{
		"seconds":     {429, "7", 7 * time.Second, 7 * time.Second},
		"date":        {503, time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 50 * time.Second, time.Minute},
		"past":        {503, time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0, 0},
		"far future":  {503, "999999999999", 10 * time.Minute, 10 * time.Minute},
		"far date":    {429, "Fri, 31 Dec 9999 23:59:59 GMT", 10 * time.Minute, 10 * time.Minute},
		"negative":    {429, "-5", 0, 0},
		"nonsense":    {429, "soon", 0, 0},
		"none":        {500, "", 0, 0},
		"overflowing": {429, "99999999999999999999999", 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := serve(t, func(_ int, w http.ResponseWriter, _ request) bool {
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(tt.code)
				return false
			})
			_, err := open(t, e.URL, nil).Write(t.Context(), sinktest.Events(1))
			wantError(t, err, false)
			if got := sink.RetryAfter(err); got < tt.min || got > tt.max {
				t.Errorf("RetryAfter = %v, want %v to %v", got, tt.min, tt.max)
			}
		})
	}
}

// TestPoisonInBatches refuses every request with certain events: exactly these
// are named, whatever the requests they come in.
func TestPoisonInBatches(t *testing.T) {
	events := sinktest.Events(30)
	poison := map[string]bool{events[4].ID: true, events[5].ID: true, events[19].ID: true, events[29].ID: true}
	for _, batch := range []int{1, 2, 7, 100} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			e := serve(t, func(_ int, w http.ResponseWriter, r request) bool {
				for id := range poison {
					if bytes.Contains(r.Body, []byte(`"id":"`+id+`"`)) {
						w.WriteHeader(http.StatusUnprocessableEntity)
						return false
					}
				}
				return true
			})
			s := open(t, e.URL, func(c *webhook.Config) { c.Batch = batch })
			var good, dead []event.Event
			for rest := events; len(rest) > 0; {
				n, err := s.Write(t.Context(), rest)
				good = append(good, rest[:n]...)
				rest = rest[n:]
				if err != nil {
					wantError(t, err, true)
					dead = append(dead, rest[0])
					rest = rest[1:]
				}
			}
			if len(dead) != len(poison) {
				t.Errorf("named %s, want %v", sinktest.EventIDs(dead), poison)
			}
			for i := range dead {
				if !poison[dead[i].ID] {
					t.Errorf("named %s, which is sound", dead[i].ID)
				}
			}
			if diff := cmp.Diff(sinktest.EventIDs(good), sinktest.IDs(records(t, e))); diff != "" || len(good) != len(events)-len(poison) {
				t.Errorf("arrived (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRedirect sends the request elsewhere: nobody there gets to see it.
func TestRedirect(t *testing.T) {
	const canary = "canary-77aa"
	other := serve(t, nil)
	e := serve(t, func(_ int, w http.ResponseWriter, _ request) bool {
		w.Header().Set("Location", other.URL+"/there?token="+canary)
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusTemporaryRedirect)
		return false
	})
	s := open(t, e.URL, func(c *webhook.Config) {
		c.Headers = map[string]sink.Secret{"Authorization": sink.NewSecret("Bearer " + canary)}
	})
	for range 2 {
		_, err := s.Write(t.Context(), sinktest.Events(1))
		wantError(t, err, false, "redirects are not followed", other.Listener.Addr().String())
		if strings.Contains(err.Error(), canary) {
			t.Errorf("the error shows the token: %v", err)
		}
	}
	if _, tried := other.Requests(); len(tried) != 0 {
		t.Errorf("the redirect was followed %d times", len(tried))
	}
	_, tried := e.Requests()
	for _, r := range tried {
		if cookie := r.Header.Get("Cookie"); cookie != "" {
			t.Errorf("sent the cookie %q back", cookie)
		}
	}
}

func TestTLS(t *testing.T) {
	start := func(t *testing.T, version2 bool) *endpointtest.Server {
		t.Helper()
		e := unstarted(t, nil)
		e.EnableHTTP2 = version2
		e.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		e.StartTLS()
		return e
	}
	for proto, version2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(proto, func(t *testing.T) {
			e := start(t, version2)
			s := open(t, e.URL, func(c *webhook.Config) { c.TLS.CAFile = e.CAFile(t) })
			events := sinktest.Events(20)
			sinktest.MustWrite(t, s, events)
			if diff := cmp.Diff(sinktest.EventIDs(events), sinktest.IDs(records(t, e))); diff != "" {
				t.Errorf("arrived (-want +got):\n%s", diff)
			}
			if kept, _ := e.Requests(); kept[0].Proto != proto {
				t.Errorf("the protocol is %s", kept[0].Proto)
			}
		})
	}
	t.Run("unknown authority", func(t *testing.T) {
		e := start(t, true)
		_, err := open(t, e.URL, nil).Write(t.Context(), sinktest.Events(1))
		wantError(t, err, false, "certificate is not trusted", "tls.caFile")
		if _, tried := e.Requests(); len(tried) != 0 {
			t.Error("the request was sent all the same")
		}
	})
	t.Run("plain HTTP behind https", func(t *testing.T) {
		e := serve(t, nil)
		_, err := open(t, strings.Replace(e.URL, "http:", "https:", 1), nil).Write(t.Context(), sinktest.Events(1))
		wantError(t, err, false, "HTTP response to HTTPS client")
	})
}

// TestConnectionsAreReused counts the connections that many requests took.
func TestConnectionsAreReused(t *testing.T) {
	connections := make(chan struct{}, 1000)
	e := unstarted(t, func(_ int, w http.ResponseWriter, _ request) bool {
		_, _ = w.Write(bytes.Repeat([]byte("x"), 60<<10)) // an answer that nobody asked for
		return true
	})
	e.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections <- struct{}{}
		}
	}
	e.Start()
	s := open(t, e.URL, nil)
	for range 3 {
		sinktest.MustWrite(t, s, sinktest.Events(50))
	}
	// On a busy machine net/http gives up a connection now and then: it waits for 50 ms at most
	// to know that a request was sent which has its answer.
	if n := len(connections); n > 15 {
		t.Errorf("150 requests took %d connections", n)
	}
}

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(c *webhook.Config){
		"one event":   func(*webhook.Config) {},
		"batches":     func(c *webhook.Config) { c.Batch = 10 },
		"gzip":        func(c *webhook.Config) { c.Batch, c.Compression = 10, compress.Gzip },
		"binary, zst": func(c *webhook.Config) { c.Format, c.Compression = sink.FormatBinary, compress.Zstd },
	} {
		t.Run(name, func(t *testing.T) {
			endpointtest.Run(t, endpointtest.Target{
				Lanes:     webhook.Driver().Lanes,
				Unstarted: endpointtest.Unstarted,
				Open: func(t *testing.T, url string) sink.Sink {
					t.Helper()
					s, err := config(t, url, func(c *webhook.Config) {
						c.Timeout = 20 * time.Second
						change(c)
					}).Open(t.Context(), sinktest.Env(t))
					sinktest.Must(t, err)
					return s
				},
				Records: records,
				Names: func(t *testing.T, r request) (names []string) {
					t.Helper()
					for _, record := range decode(t, r) {
						names = append(names, record.Attributes["name"])
					}
					return names
				},
				Answer: func(w http.ResponseWriter, _ request, status int) { w.WriteHeader(status) },
			})
		})
	}
}
