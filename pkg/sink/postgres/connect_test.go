package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/informd/informd/pkg/sink/sinktest"
)

// listen is a server that answers each login with the same bytes. The channel has the parameters of the first login.
func listen(t *testing.T, answer string) (address string, login <-chan string) {
	t.Helper()
	logins := make(chan string, 1)
	return sinktest.Listen(t, func(conn net.Conn) {
		message := make([]byte, 1024)
		n, _ := conn.Read(message)
		select {
		case logins <- string(message[min(n, 8):n]): // behind the length and the version
		default:
		}
		_, _ = io.WriteString(conn, answer)
		_ = conn.Close()
	}), logins
}

// TestNoConnection: a server that refuses connections, and an error that ends the login, whatever its code, say nothing of
// an event.
func TestNoConnection(t *testing.T) {
	refuses, _ := listen(t, "E\x00\x00\x00\x17SFATAL\x00C22023\x00Mno\x00\x00\x00\x00\x00")
	for _, server := range []string{refuses, "127.0.0.1:1"} {
		n, err := open(t, server).Write(t.Context(), sinktest.Events(3))
		if n != 0 || sinktest.Kind(err) != "passing" {
			t.Errorf("%s: Write returned %d, %v", server, n, err)
		}
		if shown := fmt.Sprint(err); strings.Contains(shown, "informd/") {
			t.Errorf("the error shows more than the address: %s", shown)
		}
	}
}

// TestStopWithoutAnswer: a write that is broken off while the server looks for the tables says that, and nothing of the
// connection, which is closed by then or soon.
func TestStopWithoutAnswer(t *testing.T) {
	asked := make(chan struct{}, 1)
	address := sinktest.Listen(t, func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		server := pgproto3.NewBackend(conn, conn)
		first, err := server.ReceiveStartupMessage()
		if _, cancels := first.(*pgproto3.CancelRequest); cancels || err != nil {
			return
		}
		server.Send(&pgproto3.AuthenticationOk{})
		server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		_ = server.Flush()
		_, _ = server.Receive() // whether it takes writes
		server.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("transaction_read_only")}}})
		server.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("off")}})
		server.Send(&pgproto3.CommandComplete{CommandTag: []byte("SHOW")})
		server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		_ = server.Flush()
		_, err = server.Receive()
		asked <- struct{}{}
		for message := pgproto3.FrontendMessage(nil); err == nil; message, err = server.Receive() {
			if _, end := message.(*pgproto3.Terminate); end {
				return
			}
		}
	})
	s := open(t, address)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	n, err := s.Write(ctx, sinktest.Events(1))
	if n != 0 || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Write returned %d, %v", n, err)
	}
}
