package journal_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// TestWritesAndSyncsAreCounted: who reads a new object knows that a sync was timed, and what was
// appended was written.
func TestWritesAndSyncsAreCounted(t *testing.T) {
	var syncs atomic.Int64
	c := testConfig(t)
	c.Synced = func(took time.Duration) {
		if took >= 0 {
			syncs.Add(1)
		}
	}
	j := openJournal(t, c)
	cursor, err := j.Open("sink", journal.FromNow)
	must(t, err)
	before, written := syncs.Load(), j.Stats()
	e := event.Event{Op: event.Added, Cluster: "test", Target: "core/pods", Resource: "pods", Version: "v1", Name: "a", UID: "u", ID: "u:1", ResourceVersion: 1, Data: make([]byte, 5000)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, j.Append(ctx, []event.Event{e}))
	if _, err := cursor.Read(ctx, 1); err != nil {
		t.Fatal(err)
	}
	now := j.Stats()
	if appended := now.Appended - written.Appended; appended < 5000 || now.Written-written.Written < appended {
		t.Errorf("%d bytes were appended, %d written", appended, now.Written-written.Written)
	}
	if syncs.Load() == before {
		t.Error("no sync was timed")
	}
	must(t, j.Close())
}
