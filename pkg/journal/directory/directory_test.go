package directory_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/directory"
)

func config(dir string) directory.Config {
	return directory.Config{Dir: dir, Cluster: "test", ClusterUID: "uid", Logger: slog.New(slog.DiscardHandler)}
}

// TestOpenAgain: events are there after a restart, and a directory is of one cluster and one process.
func TestOpenAgain(t *testing.T) {
	dir := t.TempDir()
	first, err := directory.Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	if ok, reason := first.State(); !ok {
		t.Error("a new journal does not work:", reason)
	}
	e := event.Event{
		ID: event.ObjectID("uid-1", 7, 0), Op: event.Added, Cluster: "test", Target: "core/pods", Resource: "pods", Version: "v1", Kind: "Pod",
		Namespace: "a", Name: "one", UID: "uid-1", ResourceVersion: 7, Data: []byte(`{"object":{}}`),
	}
	if err := first.Append(t.Context(), []event.Event{e}); err != nil {
		t.Fatal(err)
	}
	if second, err := directory.Open(t.Context(), config(dir)); err == nil {
		t.Error("two journals have one directory", second.Close())
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	other := config(dir)
	other.ClusterUID = "other"
	if wrong, err := directory.Open(t.Context(), other); err == nil || !strings.Contains(err.Error(), "cluster") {
		t.Errorf("error %v, want that the journal is of another cluster", err)
		if err == nil {
			_ = wrong.Close() // the test has failed
		}
	}
	again, err := directory.Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	cursor, err := again.Open("reader", journal.FromSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	for found := false; !found; {
		entries, err := cursor.Read(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			found = found || entries[i].Event.UID == "uid-1"
		}
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]directory.Config{"no cluster": {Dir: t.TempDir()}, "no directory": {Cluster: "test"}} {
		if j, err := directory.Open(t.Context(), c); err == nil {
			t.Errorf("%s: opened (%v)", name, j.Close())
		}
	}
}
