package nats_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// These tests are about servers that do not behave: a few lines on a socket play
// them. What a real server does is tested in the test module.

// listen is a server that handles each connection.
func listen(t *testing.T, handle func(conn net.Conn)) (url string) {
	t.Helper()
	return "nats://" + sinktest.Listen(t, handle)
}

const info = `INFO {"server_id":"X","version":"2.15.2","proto":1,"headers":true,"max_payload":8388608}` + "\r\n"

// greet plays the beginning of a connection, up to the answer to the first PING.
func greet(conn net.Conn) *bufio.Reader { return greetWith(conn, info) }

func greetWith(conn net.Conn, info string) *bufio.Reader {
	_, _ = conn.Write([]byte(info))
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == "PING\r\n" {
			_, _ = conn.Write([]byte("PONG\r\n"))
			return r
		}
	}
}

// read takes everything until the connection ends.
func read(r *bufio.Reader) {
	for {
		if _, err := r.Discard(1 << 10); err != nil {
			return
		}
	}
}

func open(t *testing.T, url string, jetstream bool) sink.Sink {
	t.Helper()
	return openWith(t, url, func(c *nats.Config) { c.JetStream = jetstream })
}

func openWith(t *testing.T, url string, change func(c *nats.Config)) sink.Sink {
	t.Helper()
	for attempt := 1; ; attempt++ {
		started := time.Now()
		s := openOnce(t, url, change)
		took := time.Since(started)
		if took < time.Second {
			return s
		}
		if attempt == 3 { // a busy machine is slow now and then; to wait for the server takes 2 s each time
			t.Fatalf("Open took %v", took)
		}
	}
}

func openOnce(t *testing.T, url string, change func(c *nats.Config)) sink.Sink {
	t.Helper()
	s, err := config(t, url, change).Open(t.Context(), sinktest.Env(t))
	sinktest.Must(t, err)
	t.Cleanup(func() {
		started := time.Now()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
	return s
}

// TestContextEndsEveryWait holds a Write to its context wherever the server
// leaves it waiting. The handshake has two seconds. A Write after them fails at once.
func TestContextEndsEveryWait(t *testing.T) {
	tests := map[string]func(conn net.Conn){
		"no greeting":            func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) },
		"no answer to CONNECT":   func(conn net.Conn) { _, _ = conn.Write([]byte(info)); read(bufio.NewReader(conn)) },
		"reads nothing more":     func(conn net.Conn) { greet(conn) },
		"reads, answers nothing": func(conn net.Conn) { read(greet(conn)) },
		"half a line": func(conn net.Conn) {
			r := greet(conn)
			_, _ = conn.Write([]byte("MSG a"))
			read(r)
		},
	}
	batch := sinktest.Big(10, 1<<20) // which takes a while
	for name, handle := range tests {
		for _, jetstream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, jetstream %t", name, jetstream), func(t *testing.T) {
				s := open(t, listen(t, handle), jetstream)
				for range 2 {
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					started := time.Now()
					n, err := s.Write(ctx, batch)
					cancel()
					if n != 0 || !errors.Is(err, context.DeadlineExceeded) && !handshakeFailed(err) || sink.IsPermanent(err) {
						t.Errorf("Write returned %d and %v", n, err)
					}
					// Without the context it would end after 5 s at the earliest.
					if took := time.Since(started); took > 4*time.Second {
						t.Errorf("Write took %v with a context of 200ms", took)
					}
				}
			})
		}
	}
}

// handshakeFailed reports whether there is no connection, but not because a Write has cut it.
func handshakeFailed(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "no connection: ") &&
		!strings.Contains(err.Error(), "connection lost") && !errors.Is(err, net.ErrClosed)
}

// TestServerErrors has the server end the connection in several ways: the sink
// says why, and tries again.
func TestServerErrors(t *testing.T) {
	say := func(text string) func(conn net.Conn) {
		return func(conn net.Conn) {
			_, _ = conn.Write([]byte(info))
			r := bufio.NewReader(conn)
			_, _ = r.ReadString('\n')
			_, _ = conn.Write([]byte(text))
			_ = conn.Close()
		}
	}
	tests := map[string]struct {
		handle func(conn net.Conn)
		says   string
	}{
		"no NATS server":   {func(conn net.Conn) { _, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); _ = conn.Close() }, "INFO not received"},
		"refused":          {say("-ERR 'Authorization Violation'\r\n"), "check auth"},
		"expired":          {say("-ERR 'User Authentication Expired'\r\n"), "check auth"},
		"full":             {say("-ERR 'maximum connections exceeded'\r\n"), "aximum connections exceeded"},
		"ends after hello": {say(""), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := open(t, listen(t, tt.handle), true)
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				_, err := s.Write(ctx, sinktest.Events(1))
				cancel()
				if err == nil || sink.IsPermanent(err) || errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("Write: %v, want an error that passes", err)
				}
				if !strings.Contains(err.Error(), tt.says) {
					t.Errorf("the error %q does not say %q", err, tt.says)
				}
			}
		})
	}
}

// TestServersThatOthersName has a server name a further one and hang up: the password goes to none but
// the servers of the config.
func TestServersThatOthersName(t *testing.T) {
	logins := make(chan string, 1)
	other := listen(t, func(conn net.Conn) {
		_, _ = conn.Write([]byte(info))
		line, _ := bufio.NewReader(conn).ReadString('\n')
		select {
		case logins <- line:
		default:
		}
	})
	greeting := strings.Replace(info, "}", fmt.Sprintf(`,"connect_urls":[%q]}`, strings.TrimPrefix(other, "nats://")), 1)
	url := listen(t, func(conn net.Conn) {
		greetWith(conn, greeting)
		_ = conn.Close()
	})
	s := openWith(t, strings.Replace(url, "nats://", "nats://u:canary-2b7c@", 1), func(c *nats.Config) { c.AllowInsecureAuth = true })
	for range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := s.Write(ctx, sinktest.Events(1)); err == nil {
			t.Error("Write to a server that hangs up succeeded")
		}
		cancel()
	}
	select {
	case login := <-logins:
		t.Errorf("a server that is not in servers got %s", login)
	default:
	}
}
