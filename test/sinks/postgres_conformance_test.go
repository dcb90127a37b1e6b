package sinks_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/postgres"
	"github.com/informd/informd/pkg/sink/sinktest"
	server "github.com/informd/informd/test/postgres"
)

func TestPostgresConformance(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			s := server.Start(t, server.Options{})
			address := s.Address()
			if pooled {
				address = server.StartPooler(t, s).Address()
			}
			conformance(t, s, address)
		})
	}
}

// conformance runs the suite, each part of it with a schema of its own.
func conformance(t *testing.T, s *server.Server, address string) {
	t.Helper()
	schemas := 0
	sinktest.Run(t, sinktest.Target{
		Lanes: postgres.Driver().Lanes,
		Setup: func(t *testing.T) *sinktest.Destination {
			t.Helper()
			schemas++
			return tables(s, address, fmt.Sprintf("conformance_%d", schemas))
		},
		IgnoreGoroutines: []goleak.Option{goleak.IgnoreAnyFunction("github.com/informd/informd/test/cluster/proc.launch.func1")},
	})
}

// tableConfig is the config of a sink into a schema.
func tableConfig(address, schema string) *postgres.Config {
	return &postgres.Config{
		Servers: connection.NewServers(address), Database: server.Database, Schema: schema,
		Auth: connection.Auth{Username: server.User, Password: sink.NewSecret(server.Password)},
	}
}

// tables is a schema as the conformance suite sees it.
func tables(s *server.Server, address, schema string) *sinktest.Destination {
	heal, identity := func(*testing.T) error { return nil }, ""
	return &sinktest.Destination{
		Normalised: true, Identity: func() string { return identity },
		Open: func(t *testing.T) sink.Sink {
			t.Helper()
			env := sinktest.Env(t)
			env.Found = func(found string) { identity = found }
			opened, err := tableConfig(address, schema).Open(t.Context(), env)
			must(t, err)
			return opened
		},
		Received: func(t *testing.T) []sinktest.Record { t.Helper(); return history(t, s, schema) },
		Break: func(t *testing.T, _ int) {
			t.Helper()
			must(t, s.Kill())
			heal = func(t *testing.T) error { t.Helper(); return s.Start(t.Context()) }
		},
		Stall: func(t *testing.T) {
			t.Helper()
			must(t, s.Freeze())
			heal = func(*testing.T) error { return s.Thaw() }
		},
		Heal: func(t *testing.T) { t.Helper(); must(t, heal(t)) },
		Poison: func(t *testing.T) event.Event {
			t.Helper()
			// A trigger of the user's own, as PostgreSQL itself refuses nothing of these samples.
			before, err := tableConfig(address, schema).Open(t.Context(), sinktest.Env(t))
			must(t, err)
			_, err = before.Write(t.Context(), []event.Event{poison("appetizer")})
			must(t, err)
			must(t, before.Close(t.Context()))
			s.Query(t, fmt.Sprintf(`CREATE FUNCTION %[1]s.refuse() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '22000'; END $$;
				CREATE TRIGGER refuse BEFORE INSERT ON %[1]s.history FOR EACH ROW WHEN (NEW.name = 'poison') EXECUTE FUNCTION %[1]s.refuse()`, schema))
			return poison("poison")
		},
	}
}

func poison(name string) event.Event {
	e := sinktest.Events(1)[0]
	e.ID, e.UID, e.Name = "uid-"+name+":1", "uid-"+name, name
	return e
}

// history reads the events of a schema back, in their order.
func history(t *testing.T, s *server.Server, schema string) []sinktest.Record {
	t.Helper()
	if rows := s.Query(t, fmt.Sprintf("SELECT to_regclass('%s.history') IS NULL", schema)); rows[0][0] == "t" {
		return nil
	}
	rows := s.Query(t, fmt.Sprintf(`SELECT to_jsonb(h), to_jsonb(g) FROM %[1]s.history h LEFT JOIN %[1]s.gaps g USING (cluster, id) ORDER BY position`, schema))
	all := make([]sinktest.Record, len(rows))
	for i, row := range rows {
		record, err := recordOf(row[0], row[1])
		if err != nil {
			t.Fatalf("row %d: %v\n%s", i, err, row[0])
		}
		all[i] = record
	}
	return all
}

// row is a row of history as JSON.
type row struct {
	Cluster, ID, Target, Version, Resource, Kind, Namespace, Name, UID string

	Op                                      event.Op
	Group                                   string `json:"api_group"`
	Revision, Previous, Ordinal, Epoch, Run uint64
	Replay                                  bool
	Final                                   *bool
	Object, More                            json.RawMessage
	Raw                                     *string
	Time                                    time.Time
}

// gap is a row of gaps as JSON.
type gap struct {
	From      uint64 `json:"from_revision"`
	To        uint64 `json:"to_revision"`
	Trimmed   uint64
	Reason    string
	Recovered event.Recovered
}

// recordOf makes of a row the event that it was.
func recordOf(rowText, gapText string) (sinktest.Record, error) {
	var r row
	if err := json.Unmarshal([]byte(rowText), &r); err != nil {
		return sinktest.Record{}, err
	}
	if r.Raw != nil {
		return sinktest.FromJSON([]byte(*r.Raw))
	}
	e := event.Event{
		ID: r.ID, Op: r.Op, Time: r.Time, Cluster: r.Cluster, Target: r.Target, Group: r.Group, Version: r.Version, Resource: r.Resource,
		Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID, ResourceVersion: r.Revision, PrevResourceVersion: r.Previous,
		Ordinal: r.Ordinal, Epoch: r.Epoch, Run: r.Run, Replay: r.Replay,
	}
	has := func(raw json.RawMessage) bool { return raw != nil && string(raw) != "null" }
	switch {
	case has(r.Object) && r.Final != nil:
		e.Data = form.CloseDeletedData(append(form.OpenData(nil), r.Object...), *r.Final)
	case has(r.Object):
		e.Data = form.CloseData(append(form.OpenData(nil), r.Object...))
	case r.Final != nil:
		e.Data = form.IdentityData()
	}
	if has(r.More) {
		var more map[string]json.RawMessage
		if err := json.Unmarshal(r.More, &more); err != nil {
			return sinktest.Record{}, err
		}
		var members []form.Member
		for name, value := range more {
			members = append(members, form.Member{Name: name, Value: value})
		}
		if e.Data == nil {
			e.Data = r.More
		} else {
			e.Data = form.AddMembers(e.Data, members...)
		}
	}
	if gapText != "<null>" {
		var g gap
		if err := json.Unmarshal([]byte(gapText), &g); err != nil {
			return sinktest.Record{}, err
		}
		e.Gap = &event.GapInfo{From: g.From, To: g.To, Reason: g.Reason, Recovered: g.Recovered, Trimmed: g.Trimmed}
	}
	return sinktest.FromJSON(e.AppendJSON(nil))
}
