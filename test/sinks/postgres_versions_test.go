package sinks_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	server "github.com/informd/informd/test/postgres"
)

// TestPostgresVersions: the oldest and the newest PostgreSQL do what the other tests ask of Debian's. Neither has lz4.
func TestPostgresVersions(t *testing.T) {
	for _, version := range []string{server.Oldest, server.Newest} {
		t.Run(version, func(t *testing.T) {
			s := server.Start(t, server.Options{Version: version})
			if number := s.Query(t, "SELECT current_setting('server_version_num')::int / 10000")[0][0]; number != version {
				t.Fatalf("the server has the version %s", number)
			}
			t.Run("conformance", func(t *testing.T) { conformance(t, s, s.Address()) })
			for name, test := range map[string]func(t *testing.T, s *server.Server){
				"kills": testKills, "content": testContent, "snapshots": testSnapshots, "redelivered": testRedelivered, "views": testViews,
				"retention": testRetention, "rights": testRights, "foreign": testForeign, "triggers": testTriggers, "plans": testPlans,
			} {
				t.Run(name, func(t *testing.T) { test(t, s) })
			}
		})
	}
}

// testKills: history has each event once and objects the last states, though the server is killed while it writes.
func testKills(t *testing.T, s *server.Server) {
	const kills, between, objects = 3, 5, 20
	d := newDatabase(t, s, nil)
	written, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for range kills {
			for range between {
				<-written
			}
			err = errors.Join(err, s.Kill(), s.Start(context.WithoutCancel(t.Context())))
		}
		ended <- err
	}()
	batches := 0
	for done := false; !done; batches++ {
		var batch []event.Event
		for i := range objects {
			batch = append(batch, d.object(event.Modified, "a"+strconv.Itoa(i), `{"batch":`+strconv.Itoa(batches)+`}`))
		}
		eventually(t, "a batch is taken", func(ctx context.Context) (bool, error) {
			n, err := d.sink.Write(ctx, batch)
			if sink.IsPermanent(err) || sink.IsUnknown(err) {
				t.Fatalf("Write returned %d, %v", n, err)
			}
			batch = batch[n:]
			return len(batch) == 0, err
		})
		select {
		case written <- struct{}{}:
		case err := <-ended:
			must(t, err)
			done = true
		default:
		}
	}
	all, last := strconv.Itoa(batches*objects), strconv.Itoa(batches-1)
	d.want("SELECT count(*), count(DISTINCT id), max(position) FROM t.history", all+" "+all+" "+all)
	d.want("SELECT object ->> 'batch', count(*) FROM t.objects GROUP BY 1", last+" "+strconv.Itoa(objects))
	d.want("SELECT object ->> 'batch', count(*) FROM t.objects_at(now()) GROUP BY 1", last+" "+strconv.Itoa(objects))
}
