package wal_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func options() wal.Options {
	return wal.Options{SegmentBytes: 8 << 10, TailBytes: 4 << 10, Boot: "boot", Logger: slog.New(slog.DiscardHandler), Hard: hard}
}

func open(t *testing.T, d disk.Dir, change func(*wal.Options)) *wal.Log {
	t.Helper()
	o := options()
	if change != nil {
		change(&o)
	}
	l, err := wal.Open(d, o)
	must(t, err)
	return l
}

func object(name string, op event.Op, rv uint64) event.Event {
	e := event.Event{
		ID: form.ObjectID("uid-"+name, rv, 0), Op: op, Cluster: "c", Target: "core/pods", Version: "v1", Resource: "pods", Kind: "Pod",
		Namespace: "ns", Name: name, UID: "uid-" + name, ResourceVersion: rv, Ordinal: 1, Data: fmt.Appendf(nil, `{"object":{"rv":%d}}`, rv),
	}
	if op == event.Deleted {
		e.ID = form.DeletedID(e.UID, 0)
	}
	return e
}

// TestSyncNever: after the start nothing is synced, also when segments are sealed and the log is closed.
func TestSyncNever(t *testing.T) {
	d := disktest.New(1)
	l := open(t, d, func(o *wal.Options) { o.Unsynced = true })
	d.Set(disktest.Faults{Before: func(call, _ string) error {
		if call == "sync" || call == "fsync" {
			t.Error("a sync")
		}
		return nil
	}})
	for i := range 1000 {
		must(t, l.Writer.Append(t.Context(), []event.Event{object(fmt.Sprint("n", i%10), event.Added, uint64(i+1))}))
	}
	must(t, errors.Join(l.Syncer.Sync(t.Context()), l.Close(t.Context())))
	if names, err := d.Names(); err != nil || len(names) < 10 {
		t.Errorf("%d files, %v", len(names), err)
	}
}
