package sinks_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/postgres"
	"github.com/informd/informd/pkg/sink/sinktest"
	server "github.com/informd/informd/test/postgres"
)

// database is a server with a sink into the schema t of it.
type database struct {
	t *testing.T
	*server.Server
	sink sink.Sink
	rv   uint64
}

func newDatabase(t *testing.T, s *server.Server, change func(c *postgres.Config)) *database {
	t.Helper()
	d := &database{t: t, Server: s}
	d.Query(t, "DROP SCHEMA IF EXISTS t CASCADE")
	d.sink = d.open(change)
	return d
}

func (d *database) open(change func(c *postgres.Config)) sink.Sink {
	d.t.Helper()
	c := tableConfig(d.Address(), "t")
	if change != nil {
		change(c)
	}
	s, err := c.Open(d.t.Context(), sinktest.Env(d.t))
	must(d.t, err)
	d.t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(d.t.Context())); err != nil {
			d.t.Error(err)
		}
	})
	return s
}

// object makes an event of a pod with content in its JSON.
func (d *database) object(op event.Op, name, content string) event.Event {
	d.rv++
	e := event.Event{
		ID: form.ObjectID("uid-"+name, d.rv, 0), Op: op, Time: time.Now().UTC().Truncate(time.Microsecond), Cluster: "test",
		Target: "core/pods", Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "shop", Name: name, UID: "uid-" + name,
		ResourceVersion: d.rv, Ordinal: d.rv,
		Data: form.CloseData(append(form.OpenData(nil), content...)),
	}
	if op == event.Deleted {
		e.ID, e.Data = form.DeletedID(e.UID, 0), form.CloseDeletedData(append(form.OpenData(nil), content...), true)
	}
	return e
}

func (d *database) control(op event.Op, target string, run uint64) event.Event {
	d.rv++
	e := event.Event{Op: op, Time: time.Now().UTC(), Cluster: "test", Target: target, Version: "v1", Resource: "pods", Kind: "Pod"}
	e.SetBound(op, run, d.rv)
	return e
}

func (d *database) write(events ...event.Event) {
	d.t.Helper()
	if n, err := d.sink.Write(d.t.Context(), events); n != len(events) || err != nil {
		d.t.Fatalf("Write took %d of %d events: %v", n, len(events), err)
	}
}

// want compares the rows of a query with lines, whose columns a space separates.
func (d *database) want(sql string, lines ...string) {
	d.t.Helper()
	var got []string
	for _, row := range d.Query(d.t, sql) {
		got = append(got, strings.Join(row, " "))
	}
	if diff := cmp.Diff(lines, got); diff != "" {
		d.t.Errorf("%s (-want +got):\n%s", sql, diff)
	}
}

func TestPostgresTables(t *testing.T) {
	s := server.Start(t, server.Options{})
	for name, test := range map[string]func(t *testing.T, s *server.Server){
		"content": testContent, "snapshots": testSnapshots, "redelivered": testRedelivered, "views": testViews, "retention": testRetention, "retained": testRetained,
		"repeated": testRepeatedAfterRetention,
		"rights":   testRights, "foreign": testForeign, "refusals": testRefusals, "triggers": testTriggers, "plans": testPlans, "render": testRender, "another sink": testAnotherSink, "reserved word": testReservedWord,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// testContent: what jsonb cannot hold is stored as text and marked, also among other events of a batch. A name that no
// index takes is refused, and only that.
func testContent(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	contents := map[string]string{
		"good": `{"a":1}`, "nul": `{"a":"\u0000"}`, "surrogate": `{"a":"\ud83d"}`, "pair": `{"a":"\ud83d\ude00"}`, "huge": `{"a":1e200000}`,
		"tiny": `{"a":1e-20000}`, "digits": `{"a":` + strings.Repeat("9", 140_000) + `}`, "deep": strings.Repeat(`{"a":`, 3000) + "1" + strings.Repeat("}", 3000),
		"time": `{"metadata":{"creationTimestamp":"2026-99-99T00:00:00Z"}}`, "labels": `{"metadata":{"labels":"none","ownerReferences":{"a":1}}}`, "text": `"text"`,
	}
	var events []event.Event
	for name, content := range contents {
		events = append(events, d.object(event.Added, name, content))
	}
	d.write(events...)
	marked := map[string]bool{"nul": true, "surrogate": true, "huge": true, "tiny": true, "digits": true, "time": true}
	for _, table := range []string{"history", "objects"} {
		rows := d.Query(t, "SELECT name, raw, object IS NULL FROM t."+table)
		if len(rows) != len(contents) {
			t.Errorf("%d rows in %s, want %d", len(rows), table, len(contents))
		}
		for _, row := range rows {
			name, raw, none := row[0], row[1], row[2]
			switch {
			case marked[name] != (none == "t") || marked[name] != (raw != "<null>"):
				t.Errorf("%s in %s: object is NULL: %s, raw %.60s", name, table, none, raw)
			case marked[name] && !strings.Contains(raw, contents[name]):
				t.Errorf("%s in %s: raw is %.100s", name, table, raw)
			}
		}
	}
	random := make([]byte, 4000) // which no compression makes shorter
	_, _ = rand.Read(random)
	long := d.object(event.Added, hex.EncodeToString(random), `{}`)
	n, err := d.sink.Write(t.Context(), []event.Event{d.object(event.Added, "before", `{}`), long, d.object(event.Added, "behind", `{}`)})
	if n != 1 || !sink.IsPermanent(err) {
		t.Errorf("Write with a long name returned %d, %v", n, err)
	}
	d.want("SELECT name FROM t.objects WHERE name LIKE 'be%'", "before")
}

// testSnapshots: the end of a snapshot removes the rows of its target that it has not confirmed, and no others.
func testSnapshots(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	elsewhere := d.object(event.Added, "elsewhere", `{}`)
	elsewhere.Namespace = "other"
	other := d.object(event.Added, "other", `{}`)
	other.Resource = "configmaps"
	d.write(d.object(event.Added, "stale", `{}`), d.object(event.Added, "stays", `{}`), elsewhere, other)
	begin := d.control(event.Begin, "core/pods@shop", 7)
	d.write(begin, d.object(event.Snapshot, "stays", `{}`), d.object(event.Added, "new", `{}`))
	d.write(begin, d.control(event.Synced, "core/pods@shop", 6), d.control(event.Synced, "core/pods", 7))
	d.want("SELECT name FROM t.objects ORDER BY name", "elsewhere", "new", "other", "stale", "stays")
	d.write(d.control(event.Synced, "core/pods@shop", 7))
	d.want("SELECT name FROM t.objects ORDER BY name", "elsewhere", "new", "other", "stays")
	d.write(d.control(event.Begin, "core/pods", 8), d.object(event.Snapshot, "stays", `{}`), d.control(event.Synced, "core/pods", 8))
	d.want("SELECT name FROM t.objects ORDER BY name", "other", "stays")
	d.want("SELECT * FROM t.snapshots")
	recreated := d.object(event.Added, "stays", `{}`)
	recreated.UID = "another"
	d.write(d.object(event.Deleted, "stays", `{}`), recreated, d.object(event.Added, "short", `{}`), d.object(event.Deleted, "short", `{}`))
	d.want("SELECT name, uid FROM t.objects ORDER BY name", "other uid-other", "stays another")
}

// testRedelivered: an event that comes again after newer ones changes nothing that is newer.
func testRedelivered(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	old, gone := d.object(event.Added, "a", `{"n":1}`), d.object(event.Added, "b", `{"n":1}`)
	lost := d.object(event.Added, "c", `{"n":1}`)
	d.write(old, gone, d.object(event.Modified, "a", `{"n":2}`), d.object(event.Deleted, "b", `{}`))
	deleted := d.object(event.Deleted, "d", `{}`)
	d.write(d.object(event.Added, "d", `{"n":3}`))
	again := []event.Event{old, gone, lost, deleted}
	for i := range again {
		again[i].SetRun(9)
		again[i].Redelivered = true
	}
	d.write(again...)
	d.want("SELECT name, object ->> 'n' FROM t.objects ORDER BY name", "a 2", "c 1", "d 3")
	d.want("SELECT count(*) FROM t.history WHERE redelivered", "4")
}

// testViews: the queries of the docs.
func testViews(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	pod := `{"metadata":{"labels":{"app":"web"},"creationTimestamp":"2026-11-20T10:00:00Z","ownerReferences":[{"kind":"Node","uid":"n"},{"kind":"ReplicaSet","uid":"r","controller":true}]},
		"spec":{"nodeName":"node-1","containers":[{"name":"c","image":"i:1"},{"name":"d","image":"i:2"}],"initContainers":[{"name":"e","image":"i:3"}]},"status":{"phase":"Running"}}`
	before := d.object(event.Added, "a", strings.Replace(pod, "node-1", "node-0", 1))
	before.Time = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	left := d.object(event.Added, "b", pod)
	left.Time = before.Time
	ended := d.object(event.Deleted, "b", pod)
	ended.Time = before.Time.Add(time.Hour)
	d.write(before, left, ended, d.object(event.Modified, "a", pod))
	d.want("SELECT pod, container, image FROM t.images ORDER BY 2", "a c i:1", "a d i:2", "a e i:3")
	d.want("SELECT node, name, phase FROM t.pods_by_node", "node-1 a Running")
	d.want(`SELECT name, owner_kind, owner_uid, created FROM t.objects WHERE labels @> '{"app": "web"}'`, "a ReplicaSet r 2026-11-20 10:00:00+00")
	d.want(`SELECT name, object #>> '{spec,nodeName}' FROM t.objects_at('2026-01-01 00:30Z') ORDER BY 1`, "a node-0", "b node-1")
	d.want(`SELECT name FROM t.objects_at('2026-01-01 01:30Z')`, "a")
	again := ended
	again.SetRun(9)
	again.Redelivered = true
	d.write(again)
	d.want(`SELECT op, name FROM t.changes_around('2026-01-01 01:00Z', '5 minutes')`, "deleted b")
}

// newest is how many rows retention leaves in any case.
const newest = 10_000

// fill writes rows of an object "filler".
func (d *database) fill(rows int) {
	d.t.Helper()
	events := make([]event.Event, rows)
	for i := range events {
		events[i] = d.object(event.Modified, "filler", `{}`)
	}
	d.write(events...)
}

// testRetention: old rows go, but not the last one of an object that exists.
func testRetention(t *testing.T, s *server.Server) {
	for name, test := range map[string]struct {
		limits postgres.Retention
		want   []string
	}{
		"age":        {postgres.Retention{Age: time.Hour}, []string{"a 3", "b 4", "b 5"}},
		"per object": {postgres.Retention{PerObject: 2}, []string{"a 2", "a 3", "b 4", "b 5", "gone 6", "gone 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t, s, nil)
			events := []event.Event{
				d.object(event.Added, "a", `{}`), d.object(event.Modified, "a", `{}`), d.object(event.Modified, "a", `{}`),
				d.object(event.Added, "b", `{}`), d.object(event.Modified, "b", `{}`),
				d.object(event.Added, "gone", `{}`), d.object(event.Deleted, "gone", `{}`),
			}
			for i := range events {
				if i != 4 {
					events[i].Time = events[i].Time.Add(-2 * time.Hour)
				}
			}
			d.write(events...)
			d.fill(newest)
			d.sink = d.open(func(c *postgres.Config) { c.Retention = test.limits })
			d.fill(1)
			d.want("SELECT name, revision FROM t.history WHERE name <> 'filler' ORDER BY name, revision", test.want...)
			d.want("SELECT count(*) FROM t.objects", "3")
		})
	}
}

// testRetained: what stays shows which objects exist, also if a deletion becomes old while a round is under way, and if
// events came again.
func testRetained(t *testing.T, s *server.Server) {
	const age = time.Hour
	d := newDatabase(t, s, nil)
	old := time.Now().Add(-2 * age)
	gone, stays := d.object(event.Added, "gone", `{}`), d.object(event.Added, "stays", `{}`)
	gone.Time, stays.Time = old, old
	again := stays
	again.SetRun(9)
	again.Redelivered = true
	d.write(gone, stays, again)
	d.fill(2000)
	deleted := d.object(event.Deleted, "gone", `{}`)
	deleted.Time = time.Now().Add(5*time.Second - age)
	d.write(deleted)
	d.fill(newest)
	d.sink = d.open(func(c *postgres.Config) { c.Retention = postgres.Retention{Age: age} })
	d.fill(1)
	pause(t.Context(), time.Until(deleted.Time.Add(age+100*time.Millisecond))) // until it is old
	d.fill(1)                                                                  // the second step of the round
	d.want("SELECT name FROM t.objects_at(now()) ORDER BY 1", "filler", "stays")
}

// testRepeatedAfterRetention: events that come again after a crash do not bring an old state back.
func testRepeatedAfterRetention(t *testing.T, s *server.Server) {
	limit := func(c *postgres.Config) { c.Retention = postgres.Retention{PerObject: 1} }
	d := newDatabase(t, s, limit)
	events := []event.Event{
		d.object(event.Added, "a", `{"n":1}`), d.object(event.Modified, "a", `{"n":2}`),
		d.object(event.Added, "gone", `{}`), d.object(event.Deleted, "gone", `{}`),
	}
	for range 2 {
		d.write(events...)
		d.sink = d.open(limit)
	}
	d.want("SELECT name, object ->> 'n' FROM t.objects", "a 2")
	d.want("SELECT name, object ->> 'n' FROM t.objects_at(now())", "a 2")
}

// testRights: a role that owns its schema needs nothing else, and one without the schema's rights is told so.
func testRights(t *testing.T, s *server.Server) {
	s.Query(t, `DROP SCHEMA IF EXISTS t CASCADE; CREATE ROLE small LOGIN PASSWORD 'small'; CREATE SCHEMA t AUTHORIZATION small;
		CREATE ROLE writer LOGIN PASSWORD 'small'; CREATE ROLE outsider LOGIN PASSWORD 'small'`)
	as := func(user string) func(c *postgres.Config) {
		return func(c *postgres.Config) { c.Auth = connection.Auth{Username: user, Password: sink.NewSecret("small")} }
	}
	d := &database{t: t, Server: s}
	d.sink = d.open(as("small"))
	d.write(d.object(event.Added, "a", `{}`))
	s.Query(t, "GRANT USAGE ON SCHEMA t TO writer; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA t TO writer")
	d.sink = d.open(as("writer"))
	d.write(d.object(event.Added, "b", `{}`), d.control(event.Begin, "core/pods", 1))
	d.sink = d.open(as("outsider"))
	n, err := d.sink.Write(t.Context(), []event.Event{d.object(event.Added, "c", `{}`)})
	if n != 0 || err == nil || sink.IsPermanent(err) || sink.IsUnknown(err) || !strings.Contains(err.Error(), "auth.username") {
		t.Errorf("an outsider's Write returned %d, %v", n, err)
	}
}

// testForeign: tables of another program are left alone, and so are those of a later version.
func testForeign(t *testing.T, s *server.Server) {
	for sql, word := range map[string]string{
		"CREATE TABLE t.objects (a int)":                            "table objects",
		"CREATE TABLE t.informd_schema (a int)":                     "informd_schema",
		"CREATE TABLE t.informd_schema (program text, version int)": "informd_schema",
		"CREATE TABLE t.informd_schema (program text, version int); INSERT INTO t.informd_schema VALUES ('informd', 99)": "version 99",
	} {
		s.Query(t, "DROP SCHEMA IF EXISTS t CASCADE; CREATE SCHEMA t; "+sql)
		d := &database{t: t, Server: s}
		d.sink = d.open(nil)
		for range 3 { // each attempt is refused
			n, err := d.sink.Write(t.Context(), []event.Event{d.object(event.Added, "a", `{}`)})
			if n != 0 || err == nil || sink.IsPermanent(err) || sink.IsUnknown(err) || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: Write returned %d, %v, want %q", sql, n, err, word)
			}
		}
	}
	// Several processes make the tables at the same time.
	s.Query(t, "DROP SCHEMA t CASCADE")
	d := &database{t: t, Server: s}
	results := make(chan error)
	for i := range 4 {
		other := d.open(nil)
		e := d.object(event.Added, "a"+strconv.Itoa(i), `{}`)
		go func() {
			_, err := other.Write(t.Context(), []event.Event{e})
			results <- err
		}()
	}
	for range 4 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	d.want("SELECT count(*) FROM t.history", "4")
}

// testRefusals: a constraint of the user refuses one event, for a reason that may pass. A missing table concerns all.
func testRefusals(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	d.write(d.object(event.Added, "a", `{}`))
	d.Query(t, "ALTER TABLE t.history ADD CHECK (name <> 'forbidden')")
	n, err := d.sink.Write(t.Context(), []event.Event{d.object(event.Added, "b", `{}`), d.object(event.Added, "forbidden", `{}`), d.object(event.Added, "c", `{}`)})
	if n != 1 || !sink.IsUnknown(err) || sink.IsPermanent(err) {
		t.Errorf("Write returned %d, %v", n, err)
	}
	d.Query(t, "ALTER TABLE t.gaps RENAME TO lost")
	gap := d.control(event.Gap, "core/pods", 0)
	gap.Gap = &event.GapInfo{From: 1, To: 2, Reason: "expired", Recovered: event.RecoveredState}
	n, err = d.sink.Write(t.Context(), []event.Event{gap})
	if n != 0 || err == nil || sink.IsUnknown(err) || sink.IsPermanent(err) {
		t.Errorf("Write returned %d, %v", n, err)
	}
	d.Query(t, "ALTER TABLE t.lost RENAME TO gaps")
	d.write(gap)
	d.want("SELECT reason FROM t.gaps", "expired")
}

// testTriggers: what a trigger of the user does to the position is no reason to refuse an event.
func testTriggers(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	d.write(d.object(event.Added, "a", `{}`))
	d.Query(t, `CREATE FUNCTION t.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '22000'; END $$;
		CREATE FUNCTION t.ignore() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
	batch := []event.Event{d.object(event.Modified, "a", `{}`), d.object(event.Added, "b", `{}`)}
	for _, trigger := range []string{
		"BEFORE INSERT ON t.cursors FOR EACH ROW EXECUTE FUNCTION t.refuse()",
		"BEFORE INSERT ON t.cursors FOR EACH ROW EXECUTE FUNCTION t.ignore()",
		"BEFORE UPDATE ON t.cursors FOR EACH ROW EXECUTE FUNCTION t.refuse()",
		"BEFORE UPDATE ON t.cursors FOR EACH ROW WHEN (OLD.position <> NEW.position) EXECUTE FUNCTION t.refuse()",
	} {
		d.Query(t, "CREATE TRIGGER refuse "+trigger)
		for _, events := range [][]event.Event{batch, batch[:1]} {
			n, err := d.sink.Write(t.Context(), events)
			if n != 0 || err == nil || sink.IsUnknown(err) || sink.IsPermanent(err) {
				t.Errorf("%s: Write of %d events returned %d, %v", trigger, len(events), n, err)
			}
		}
		d.Query(t, "DROP TRIGGER refuse ON t.cursors")
	}
	d.write(batch...)
	d.want("SELECT name, revision FROM t.objects ORDER BY name", "a 2", "b 3")
}

// testPlans: before the server has statistics, a batch reads its own rows, not all of the cluster.
func testPlans(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	d.write(d.object(event.Added, "a", `{}`))
	d.Query(t, "ALTER TABLE t.history SET (autovacuum_enabled = off); ALTER TABLE t.objects SET (autovacuum_enabled = off)")
	const batches, size = 40, 25
	for batch := range batches {
		events := []event.Event{d.object(event.Deleted, "none"+strconv.Itoa(batch), `{}`)}
		for i := range size {
			events = append(events, d.object(event.Modified, "a"+strconv.Itoa(i), `{"a":1}`))
		}
		d.write(events...)
	}
	if err := d.sink.Close(t.Context()); err != nil { // the connection has sent its statistics then
		t.Fatal(err)
	}
	const rows = batches * (size + 1)
	eventually(t, "at most some reads of an index for each row", func(context.Context) (bool, error) {
		read, err := strconv.Atoi(d.Query(t, "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 't' AND relname = 'history'")[0][0])
		if read > 3*rows {
			t.Fatalf("%d rows took %d reads", rows, read)
		}
		return read >= rows, err
	})
}

// testRender: informd try shows the row that history gets.
func testRender(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	events := sinktest.AllOps()
	events = append(events, sinktest.Hostile()...)
	d.write(events...)
	rows := d.Query(t, "SELECT to_jsonb(h) - 'cluster' - 'position' FROM t.history h ORDER BY position")
	for i := range events {
		rendered, err := tableConfig("localhost", "t").Render(sinktest.Env(t), &events[i])
		must(t, err)
		var want, got map[string]any
		for text, into := range map[string]*map[string]any{rows[i][0]: &want, string(rendered.Body): &got} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the row and what Render shows (-row +shown):\n%s", events[i].ID, diff)
		}
	}
}

// testReservedWord: any name that the config takes is one for a schema.
func testReservedWord(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, func(c *postgres.Config) { c.Schema = "user" })
	d.write(d.object(event.Added, "a", `{}`), d.control(event.Begin, "core/pods", 1))
	d.want(`SELECT count(*) FROM "user".history`, "2")
}

// testAnotherSink: a second sink of the same cluster is refused, another cluster is not.
func testAnotherSink(t *testing.T, s *server.Server) {
	d := newDatabase(t, s, nil)
	d.write(d.object(event.Added, "a", `{}`))
	for name, test := range map[string]struct {
		change  func(env *sink.Env)
		refused bool
	}{
		"sink":    {func(env *sink.Env) { env.Name = "second" }, true},
		"cluster": {func(env *sink.Env) { env.Cluster = "second" }, false},
	} {
		env := sinktest.Env(t)
		test.change(&env)
		other, err := tableConfig(s.Address(), "t").Open(t.Context(), env)
		must(t, err)
		n, err := other.Write(t.Context(), []event.Event{d.object(event.Added, "a", `{}`)})
		if (err != nil) != test.refused || sink.IsPermanent(err) || test.refused && !strings.Contains(err.Error(), "set schema") {
			t.Errorf("another %s: Write returned %d, %v", name, n, err)
		}
		if err := other.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	d.want("SELECT cluster, count(*) FROM t.history GROUP BY 1 ORDER BY 1", "second 1", "test 1")
}
