package sinks_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/postgres"
	"github.com/informd/informd/pkg/sink/sinktest"
	server "github.com/informd/informd/test/postgres"
)

// TestPostgresPositions: what the tables make of the positions that informd gives.
func TestPostgresPositions(t *testing.T) {
	s := server.Start(t, server.Options{})
	for name, test := range map[string]func(t *testing.T, s *server.Server){
		"repeated": testRepeated, "restored": testRestored, "two writers": testTwoWriters,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

func (d *database) writeAt(at sink.Positions, events ...event.Event) {
	d.t.Helper()
	if n, err := sink.WriteAt(d.t.Context(), d.sink, events, at); n != len(events) || err != nil {
		d.t.Fatalf("WriteAt took %d of %d events: %v", n, len(events), err)
	}
}

// testRepeated: after a power loss the watch brings events of the last second again, with their ids. The log leaves
// out many sequences then, so theirs are higher than all before.
func testRepeated(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	a, b := d.object(event.Added, "a", `{}`), d.object(event.Modified, "a", `{}`)
	d.writeAt(sink.Positions{Log: "log", Seqs: []uint64{1, 2}}, a, b)
	d.sink = d.open(nil)
	state, c := d.control(event.Begin, "core/pods", 3), d.object(event.Modified, "a", `{}`)
	d.writeAt(sink.Positions{Log: "log", Seqs: []uint64{1<<24 + 1}, Acknowledged: 1}, state)
	d.writeAt(sink.Positions{Log: "log", Seqs: []uint64{1<<24 + 2, 1<<24 + 3}, Acknowledged: 1<<24 + 1}, b, c)
	d.want("SELECT count(*), count(DISTINCT id) FROM t.history", "4 4")
}

// testTwoWriters: of two informds with one cluster and schema, one writes. The other says why it does not, and repeats nothing.
func testTwoWriters(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	d.writeAt(sink.Positions{Log: "one", Seqs: []uint64{1}}, d.object(event.Added, "a", `{}`))
	before := d.Query(t, "SELECT identity, log FROM t.cursors")[0]
	first := d.sink
	d.sink = d.open(nil)
	at := sink.Positions{Log: "other", Seqs: []uint64{7}, Acknowledged: 6}
	n, err := sink.WriteAt(t.Context(), d.sink, []event.Event{d.object(event.Added, "b", `{}`)}, at)
	if n != 0 || err == nil || sink.IsPermanent(err) || sink.IsUnknown(err) {
		t.Errorf("the other one wrote %d, %v; want an error that is retried", n, err)
	}
	d.sink = first
	d.writeAt(sink.Positions{Log: "one", Seqs: []uint64{2}, Acknowledged: 1}, d.object(event.Modified, "a", `{}`))
	if after := d.Query(t, "SELECT identity, log FROM t.cursors")[0]; !slices.Equal(before, after) {
		t.Errorf("the cursor is %q, was %q", after, before)
	}
}

// testRestored: tables that lack events report that once, also while what comes has no sequence or a low one. An empty
// identity before says so if informd knows none of before, because the sink had another type.
func testRestored(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	d.writeAt(sink.Positions{Log: "log", Seqs: []uint64{50}}, d.object(event.Added, "a", `{}`))
	var found []string
	env := sinktest.Env(t)
	env.Found = func(identity string) {
		if len(found) == 0 || found[len(found)-1] != identity {
			found = append(found, identity)
		}
	}
	opened, err := tableConfig(s.Address(), "t").Open(t.Context(), env)
	must(t, err)
	d.sink = opened
	for _, seq := range []uint64{0, 0, 51, 0, 101, 0} {
		d.writeAt(sink.Positions{Log: "log", Seqs: []uint64{seq}, Acknowledged: 100}, d.object(event.Modified, "a", `{}`))
	}
	if err := opened.Close(t.Context()); err != nil {
		t.Error(err)
	}
	before := d.Query(t, "SELECT identity FROM t.cursors")[0][0]
	if diff := cmp.Diff([]string{"", before}, found); diff != "" {
		t.Errorf("identities (-want +got):\n%s", diff)
	}
}

// TestPostgresReadOnly: a server that takes no writes any more, with its connections left open, is left for the next one.
func TestPostgresReadOnly(t *testing.T) {
	first, second := server.Start(t, server.Options{}), server.Start(t, server.Options{})
	d := newDatabase(t, first, func(c *postgres.Config) { c.Servers = connection.NewServers(first.Address(), second.Address()) })
	d.write(d.object(event.Added, "a", `{}`))
	first.Query(t, "ALTER SYSTEM SET default_transaction_read_only = on")
	first.Query(t, "SELECT pg_reload_conf()")
	e := d.object(event.Added, "b", `{}`)
	eventually(t, "rows on the other server", func(ctx context.Context) (bool, error) {
		n, err := d.sink.Write(ctx, []event.Event{e})
		if sink.IsPermanent(err) || sink.IsUnknown(err) {
			t.Fatalf("Write returned %d, %v", n, err)
		}
		e = d.object(event.Added, "b", `{}`)
		return n == 1 && len(second.Query(t, "SELECT FROM pg_namespace WHERE nspname = 't'")) == 1, err
	})
}

// TestPostgresEncoding: a database that is not in UTF-8 would refuse most characters. It is refused before it has a table.
func TestPostgresEncoding(t *testing.T) {
	s := server.Start(t, server.Options{})
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		name := strings.ToLower(encoding)
		s.Query(t, "CREATE DATABASE "+name+" ENCODING '"+encoding+"' LOCALE 'C' TEMPLATE template0")
		d := newDatabase(t, s, func(c *postgres.Config) { c.Database = name })
		n, err := d.sink.Write(t.Context(), []event.Event{d.object(event.Added, "a", `{"text":"日本"}`)})
		if n != 0 || err == nil || sink.IsPermanent(err) || sink.IsUnknown(err) || !strings.Contains(err.Error(), encoding) {
			t.Errorf("%s: Write returned %d, %v", encoding, n, err)
		}
		conn, err := pgconn.Connect(t.Context(), fmt.Sprintf("host=127.0.0.1 port=%s user=%s password=%s dbname=%s sslmode=disable",
			strings.TrimPrefix(s.Address(), "127.0.0.1:"), server.User, server.Password, name))
		must(t, err)
		results, err := conn.Exec(t.Context(), "SELECT FROM pg_namespace WHERE nspname = 't'").ReadAll()
		if err != nil || len(results[0].Rows) != 0 {
			t.Errorf("%s: %d schemas, %v", encoding, len(results[0].Rows), err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
