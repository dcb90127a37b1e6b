package postgres

import (
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestLoginBeforeTheSecondTry: a refused event goes again as text, over a new connection if the first one has ended. An
// error that ends its login says nothing of the event, whatever its code.
func TestLoginBeforeTheSecondTry(t *testing.T) {
	address := sinktest.Listen(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1024))
		_, _ = io.WriteString(conn, "E\x00\x00\x00\x17SFATAL\x00C22023\x00Mno\x00\x00\x00\x00\x00")
		_ = conn.Close()
	})
	s := newTables(&Config{
		Servers: connection.NewServers(address), Database: "d", Schema: "s", Auth: connection.Auth{Username: "u"},
	}, sink.Env{})
	reason := contentError{&pgconn.PgError{Code: "22P05"}}
	_, err := s.writeRefused(t.Context(), make([]event.Event, 1), sink.Positions{Seqs: []uint64{0}}, reason)
	if err == nil || sink.IsPermanent(err) || sink.IsUnknown(err) {
		t.Errorf("the error is permanent or unknown: %v", err)
	}
}
