package postgres

import (
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestLossIsNoticedOnce: what informd repeats after a loss has no sequence, and must not look like another loss.
func TestLossIsNoticedOnce(t *testing.T) {
	s := newTables(new(Config), sink.Env{Logger: slog.New(slog.DiscardHandler)})
	p := place{identity: "before", log: "a", sequence: 3, position: 3}
	at := sink.Positions{Log: "a", Seqs: []uint64{0}, Acknowledged: 16}
	s.compare(&p, at)
	noticed := p.identity
	s.compare(&p, at)
	if noticed == "before" || p.identity != noticed {
		t.Errorf("identities %q and %q", noticed, p.identity)
	}
}

// TestFits: a NUL is found before the server is asked, and nothing that only looks like one.
func TestFits(t *testing.T) {
	for json, want := range map[string]bool{
		`{"a":"\u0041\n\"\\"}`:             true,
		`{"a":"\\u0000"}`:                  true,
		`{"a":"\\\\u0000"}`:                true,
		`{"a":"\u0000"}`:                   false,
		`{"a\u0000":1}`:                    false,
		`{"a":"\\\u0000"}`:                 false,
		`{"a":"\\u0000","b":"\\\\\u0000"}`: false,
		``:                                 true,
	} {
		if got := fits(&event.Event{Data: []byte(json)}); got != want {
			t.Errorf("fits(%q) = %t", json, got)
		}
	}
	if fits(&event.Event{Name: "a\x00"}) || fits(&event.Event{Name: "a\xff"}) {
		t.Error("a name that no text holds fits")
	}
}

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
