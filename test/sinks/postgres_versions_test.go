package sinks_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// TestPostgresDiskFull: while the disk of the server is full, events are neither lost nor refused. It mounts a small
// file system, as root.
func TestPostgresDiskFull(t *testing.T) {
	dir := t.TempDir()
	for _, open := range []string{dir, filepath.Dir(dir)} { // to the server's user
		must(t, os.Chmod(open, 0o711))
	}
	disk := filepath.Join(dir, "disk")
	must(t, os.Mkdir(disk, 0o700))
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=200m,mode=0711"); err != nil {
		t.Fatalf("mount a small file system (as root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	data := filepath.Join(disk, "data")
	must(t, os.Mkdir(data, 0o700))
	s := server.Start(t, server.Options{DataDir: data, Settings: map[string]string{"max_wal_size": "32MB", "min_wal_size": "32MB"}})
	d := newDatabase(t, s, nil)
	filler := filepath.Join(disk, "filler")
	next := func() []event.Event {
		var batch []event.Event
		for range 50 {
			batch = append(batch, d.object(event.Added, "object", `{"filler":"`+string(slices.Repeat([]byte("-"), 10_000))+`"}`))
		}
		return batch
	}
	d.write(next()...)
	for range 3 {
		fill(t, filler)
		failed, batch := false, next()
		for range 100 {
			n, err := d.sink.Write(t.Context(), batch)
			if err != nil {
				if failed = true; n != 0 || sink.IsPermanent(err) || sink.IsUnknown(err) {
					t.Fatalf("Write on a full disk returned %d, %v", n, err)
				}
				break
			}
			batch = next()
		}
		if !failed {
			t.Fatal("no Write failed on a full disk")
		}
		must(t, os.Remove(filler))
		if _, err := s.TryQuery(t.Context(), "SELECT 1"); err != nil {
			_ = s.Kill() // it has given up, or is about to
			must(t, s.Start(t.Context()))
		}
		for end := time.Now().Add(time.Minute); ; {
			n, err := d.sink.Write(t.Context(), batch)
			if n == len(batch) {
				break
			}
			if sink.IsPermanent(err) || sink.IsUnknown(err) || time.Now().After(end) {
				t.Fatalf("Write returned %d, %v", n, err)
			}
		}
	}
	d.want("SELECT count(*) = max(revision) AND count(*) = count(DISTINCT id) FROM t.history", "t")
}

// fill leaves no room on the file system of a file.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	must(t, f.Close())
}
