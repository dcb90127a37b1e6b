package delivery_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/postgres"
)

// tablesSink is a sink into a schema of the same name.
func tablesSink(name, address, more string) string {
	return fmt.Sprintf("- {name: %[1]s, type: postgres, servers: %[2]q, database: %[3]s, schema: %[1]s, auth: {username: %[4]s, password: %[5]s}%[6]s}",
		name, address, postgres.Database, postgres.User, postgres.Password, more)
}

// databaseRig is a rig whose informd writes tables, directly and through PgBouncer.
type databaseRig struct {
	*e2e.Rig
	server  *postgres.Server
	pooler  *postgres.Pooler
	informd *e2e.Informd
	random  *rand.Rand
	counts  map[string]int // of faults
}

func startDatabaseRig(t *testing.T) *databaseRig {
	t.Helper()
	seed := uint64(e2e.Number(t, "E2E_SEED", int(time.Now().UnixNano())))
	t.Logf("seed %d", seed)
	r := &databaseRig{Rig: e2e.NewRig(t), server: postgres.Start(t, postgres.Options{}), random: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}}
	r.pooler = postgres.StartPooler(t, r.server)
	s := r.Setup(e2e.LogJournal + e2e.LongHistory)
	s.Sinks = tablesSink("direct", r.server.Address(), "") + "\n" + tablesSink("pooled", r.pooler.Address(), "")
	r.informd = e2e.NewInformd(t, s)
	return r
}

// fault makes a random fault, which has ended when it returns.
func (r *databaseRig) fault() {
	r.T.Helper()
	short := time.Duration(r.random.Int64N(int64(time.Second)))
	ctx := r.T.Context()
	faults := map[string]func() error{
		"informd killed":   func() error { r.informd.Kill(); r.informd.Start(); return nil },
		"server killed":    func() error { return during(short/4, r.server.Kill, func() error { return r.server.Start(ctx) }) },
		"server shut down": func() error { return during(short/4, r.server.Stop, func() error { return r.server.Start(ctx) }) },
		"server frozen":    func() error { return during(short, r.server.Freeze, r.server.Thaw) },
		"pooler killed":    func() error { return during(short/4, r.pooler.Kill, func() error { return r.pooler.Start(ctx) }) },
		"pooler frozen":    func() error { return during(short, r.pooler.Freeze, r.pooler.Thaw) },
		"connections cut":  r.cutConnections,
		"informd and server killed": func() error {
			r.informd.Kill()
			return during(0, r.server.Kill, func() error { r.informd.Start(); return r.server.Start(ctx) })
		},
	}
	name := slices.Sorted(maps.Keys(faults))[r.random.IntN(len(faults))]
	r.counts[name]++
	if err := faults[name](); err != nil {
		r.T.Fatalf("%s: %v", name, err)
	}
}

func during(pause time.Duration, begin, end func() error) error {
	if err := begin(); err != nil {
		return err
	}
	<-time.After(pause)
	return end()
}

// cutConnections ends all connections to the server some times, in whatever transaction they are.
func (r *databaseRig) cutConnections() error {
	for range 5 {
		if _, err := r.server.TryQuery(r.T.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename IS NOT NULL"); err != nil {
			return err
		}
		<-time.After(time.Duration(r.random.Int64N(int64(100 * time.Millisecond))))
	}
	return nil
}

// TestTablesUnderFaults: whatever is killed, frozen or cut off, the table objects ends with what the API server lists,
// and history has each event that another sink got once. E2E_FAULTS is how many there are.
func TestTablesUnderFaults(t *testing.T) {
	r := startDatabaseRig(t)
	r.informd.Start()
	r.informd.WaitForSync(len(r.Kinds))
	end := r.Load()
	for range e2e.Number(t, "E2E_FAULTS", 40) {
		<-time.After(100*time.Millisecond + time.Duration(r.random.Int64N(int64(900*time.Millisecond))))
		r.fault()
	}
	end()
	t.Logf("faults: %v", r.counts)
	e2e.Eventually(t, "the file is complete", func() bool { return e2e.Complete(r.Kinds, r.informd.Records(), r.Ledger) })
	r.informd.WaitForLive(len(r.Kinds))
	for _, schema := range []string{"direct", "pooled"} {
		t.Run(schema, func(t *testing.T) {
			r.checkObjects(t, schema)
			r.checkHistory(t, schema)
		})
	}
}

// checkObjects compares the table objects with lists of the API server.
func (r *databaseRig) checkObjects(t *testing.T, schema string) {
	t.Helper()
	rows, different := r.compareObjects(t, schema)
	for _, one := range different {
		t.Error(one)
	}
	t.Logf("%d rows in %s.objects, %d differ", rows, schema, len(different))
}

func (r *databaseRig) compareObjects(t *testing.T, schema string) (rows int, different []string) {
	t.Helper()
	want := map[string]string{}
	for _, k := range r.Kinds {
		list, err := r.Client.Resource(k.GVR).Namespace(k.Namespace).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
		e2e.Must(t, err)
		for _, o := range list.Items {
			key := strings.Join([]string{k.GVR.Group, k.GVR.Resource, o.GetNamespace(), o.GetName()}, "/")
			want[key] = fmt.Sprint(o.GetUID(), " ", o.GetResourceVersion(), " ", o.GetResourceVersion())
		}
	}
	got := map[string]string{}
	for _, row := range r.server.Query(t, fmt.Sprintf(`SELECT api_group, resource, namespace, name,
			uid || ' ' || revision || ' ' || (object #>> '{metadata,resourceVersion}') FROM %s.objects`, schema)) {
		got[strings.Join(row[:4], "/")] = row[4]
	}
	for key := range union(want, got) {
		if got[key] != want[key] {
			different = append(different, fmt.Sprintf("%s: the row is %q, the object %q", key, got[key], want[key]))
		}
	}
	return len(got), different
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// checkHistory compares the table history with the file. A first snapshot is of one sink alone.
func (r *databaseRig) checkHistory(t *testing.T, schema string) {
	t.Helper()
	const ops = "added modified deleted"
	inFile, _ := e2e.Once(t, r.informd.Records())
	want := map[string]string{}
	for _, e := range inFile {
		if strings.Contains(ops, e.Op) {
			want[e.ID] = fmt.Sprint(e.Op, " ", e.ResourceVersion)
		}
	}
	got, rows := map[string]string{}, r.server.Query(t, fmt.Sprintf("SELECT id, op, revision FROM %s.history ORDER BY position", schema))
	counted := 0
	for _, row := range rows {
		if _, twice := got[row[0]]; twice {
			t.Errorf("history has %s twice", row[0])
		}
		if got[row[0]] = row[1] + " " + row[2]; !strings.Contains(ops, row[1]) {
			continue
		}
		counted++
		if want[row[0]] != got[row[0]] {
			t.Errorf("history has %s as %q, the file as %q", row[0], got[row[0]], want[row[0]])
		}
	}
	for id := range want {
		if got[id] == "" {
			t.Errorf("history lacks %s", id)
		}
	}
	t.Logf("%d events in %s.history, %d of them changes; %d changes in the file", len(rows), schema, counted, len(want))
}

// TestLostTables: a database that was restored from a backup, and one whose tables were dropped, get every object again,
// and a gap. That holds for a restore while informd runs, and while it is down.
func TestLostTables(t *testing.T) {
	r := startDatabaseRig(t)
	r.informd.Start()
	r.informd.WaitForLive(len(r.Kinds))
	ctx := t.Context()
	lose := map[string]func() error{
		"1 restored while running": func() error { return r.server.Restore(ctx) },
		"2 restored while down": func() error {
			r.informd.Stop()
			err := r.server.Restore(ctx)
			r.informd.Start()
			return err
		},
		"3 dropped": func() error {
			_, err := r.server.TryQuery(ctx, "DROP SCHEMA direct CASCADE; DROP SCHEMA pooled CASCADE")
			return err
		},
	}
	for _, name := range slices.Sorted(maps.Keys(lose)) {
		t.Run(name, func(t *testing.T) {
			r.Write(10)
			r.informd.WaitForLive(len(r.Kinds))
			e2e.Must(t, r.server.Backup(ctx))
			r.Write(10)
			r.informd.WaitForLive(len(r.Kinds))
			e2e.Must(t, lose[name]())
			w := e2e.NewWriter(r.Client, r.Kinds[1], r.Ledger, 5)
			e2e.Must(t, w.Create(ctx, "after-"+name[:1]))
			for _, schema := range []string{"direct", "pooled"} {
				e2e.Eventually(t, "the gap is in the tables", func() bool {
					rows, err := r.server.TryQuery(ctx, "SELECT 1 FROM "+schema+".gaps WHERE reason = 'destination'")
					return err == nil && len(rows) > 0
				})
				e2e.Eventually(t, "every object is in the tables", func() bool {
					_, different := r.compareObjects(t, schema)
					return len(different) == 0
				})
			}
			if _, err := r.server.TryQuery(ctx, "DELETE FROM direct.gaps; DELETE FROM pooled.gaps"); err != nil {
				t.Fatal(err)
			}
		})
	}
}
