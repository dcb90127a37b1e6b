package chaos

import (
	"bufio"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// linked is a connection through a link to a server that echoes lines.
func linked(t *testing.T) (*Link, net.Conn) {
	t.Helper()
	link, err := NewLink(echo(t, ""))
	must(t, err)
	t.Cleanup(func() { _ = link.Close() })
	return link, dial(t, link)
}

// echo answers every line with the prefix and the line.
func echo(t *testing.T, prefix string) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				lines := bufio.NewReader(conn)
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					if _, err := io.WriteString(conn, prefix+line); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(t *testing.T, link *Link) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", link.Address())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask sends a line and returns the answer, or the error of waiting for it.
func ask(conn net.Conn, within time.Duration) (string, error) {
	if _, err := io.WriteString(conn, "ping\n"); err != nil {
		return "", err
	}
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

const answered = time.Minute

func TestLinkPasses(t *testing.T) {
	_, conn := linked(t)
	if got, err := ask(conn, answered); got != "ping\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestLinkCutResets(t *testing.T) {
	link, conn := linked(t)
	if _, err := ask(conn, answered); err != nil {
		t.Fatal(err)
	}
	link.Cut()
	if _, err := ask(conn, answered); err == nil {
		t.Error("the connection was not cut")
	}
	if _, err := ask(dial(t, link), answered); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

func TestLinkHoldIsSilentAndPassesLater(t *testing.T) {
	link, conn := linked(t)
	link.Hold()
	_, err := ask(conn, 100*time.Millisecond)
	if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a held connection answers %v, want silence", err)
	}
	link.Heal()
	must(t, conn.SetDeadline(time.Now().Add(answered)))
	if got, err := bufio.NewReader(conn).ReadString('\n'); got != "ping\n" || err != nil {
		t.Errorf("what was held: %q, %v", got, err)
	}
}

func TestLinkRefusesAndDripsAndFlips(t *testing.T) {
	link, _ := linked(t)
	link.Refuse()
	expectRefused(t, link)
	link.Heal()
	link.Drip()
	began := time.Now()
	if _, err := ask(dial(t, link), answered); err != nil || time.Since(began) < 5*time.Millisecond {
		t.Errorf("ten bytes dripped in %s, %v", time.Since(began), err)
	}
	link.Heal()
	link.SetBackend(echo(t, "other "))
	if got, err := ask(dial(t, link), answered); got != "other ping\n" || err != nil {
		t.Errorf("after the flip: %q, %v", got, err)
	}
}

// expectRefused expects that a new connection is reset: while it is dialled, or
// when it asks.
func expectRefused(t *testing.T, link *Link) {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", link.Address())
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	if got, err := ask(conn, answered); err == nil {
		t.Errorf("a refused connection answers %q", got)
	}
}

func TestLinkSpreadsConnections(t *testing.T) {
	link, _ := linked(t)
	link.Spread(1, echo(t, "a "), echo(t, "b "))
	answers := make(map[string]int)
	for range 30 {
		got, err := ask(dial(t, link), answered)
		must(t, err)
		answers[got]++
	}
	if answers["a ping\n"] == 0 || answers["b ping\n"] == 0 || len(answers) != 2 {
		t.Errorf("the connections went to %v, want both", answers)
	}
	link.Spread(1)
	expectRefused(t, link)
}
