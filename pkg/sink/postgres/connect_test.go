package postgres_test

import (
	"io"
	"net"
	"testing"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/postgres"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestRefusedConnection: an error that ends the login says nothing of an event, whatever its code.
func TestRefusedConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the test's end closes it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1024))
			_, _ = io.WriteString(conn, "E\x00\x00\x00\x17SFATAL\x00C22023\x00Mno\x00\x00\x00\x00\x00")
			_ = conn.Close()
		}
	}()
	c := &postgres.Config{
		Servers: connection.NewServers(listener.Addr().String()), Database: "d", Schema: "s", Auth: connection.Auth{Username: "u"},
	}
	s, err := c.Open(t.Context(), sinktest.Env(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.Write(t.Context(), sinktest.Events(1))
	if n != 0 || err == nil || sink.IsPermanent(err) || sink.IsUnknown(err) {
		t.Errorf("Write returned %d, %v", n, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
