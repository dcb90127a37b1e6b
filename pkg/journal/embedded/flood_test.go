package embedded_test

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// A reader that sends what it must not is disconnected, and the log has few lines of it.
func TestFloodOfRefusedMessages(t *testing.T) {
	c, log := logged(t.TempDir())
	s, other, _ := listening(t, c)
	gone := make(chan struct{})
	reader, err := nats.Connect(s.URL(), nats.NoReconnect(), nats.Timeout(deadline), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
		nats.ClosedHandler(func(*nats.Conn) { close(gone) }))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for range 20_000 {
		if err := reader.Publish("k8s.forged", nil); err != nil {
			break
		}
	}
	select {
	case <-gone:
	case <-timeout(t).Done():
		t.Fatal("it is still connected")
	}
	fetch(t, other, 10) // others read on
	if lines := strings.Count(log.String(), "Violation"); lines == 0 || lines > 20 {
		t.Errorf("%d lines", lines)
	}
}

// Somebody who connects without end gets as many connections as readers may have. The
// process's own come back, also to another server.
func TestFloodOfConnections(t *testing.T) {
	const most, flood = 64, 200
	c := config(t.TempDir())
	c.Listen = "127.0.0.1:0"
	s := start(t, c)
	create(t, s)
	address := strings.TrimPrefix(s.URL(), "nats://")
	connect := func() (served int) {
		for range flood {
			conn, err := net.Dial("tcp", address) //nolint:noctx // as short as the test
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(conn)
			if _, err := r.ReadString('\n'); err != nil { // the server's INFO
				continue
			}
			if _, err := conn.Write([]byte("CONNECT {\"verbose\":false}\r\nPING\r\n")); err != nil {
				continue
			}
			if line, err := r.ReadString('\n'); err == nil && strings.HasPrefix(line, "PONG") {
				served++
			}
		}
		return served
	}
	if n := connect(); n == 0 || n > most {
		t.Errorf("%d readers are served", n)
	}
	before := s.Conn().ConnectedServerId()
	if err := s.StopJetStream(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process to be connected to another server", func() bool {
		id := s.Conn().ConnectedServerId()
		ok, _ := s.State()
		return id != "" && id != before && ok
	})
	eventually(t, "the listener", func() bool {
		conn, err := net.Dial("tcp", address) //nolint:noctx // as short as the test
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	if n := connect(); n == 0 || n > most {
		t.Errorf("%d readers are served after a restart", n)
	}
	publish(t, s, 0, 10)
}
