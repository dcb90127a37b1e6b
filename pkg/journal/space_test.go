package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// keepUp reads and commits until ctx ends.
func keepUp(ctx context.Context, t *testing.T, c *journal.Cursor) {
	for {
		entries, err := c.Read(ctx, 200)
		if err != nil {
			return
		}
		if err := c.Commit(entries[len(entries)-1].Seq); err != nil && !errors.Is(err, journal.ErrClosed) {
			t.Errorf("Commit: %v", err)
		}
	}
}

// pod is an event of a Pod with a number, and data of that size.
func pod(op event.Op, i, size int) event.Event {
	return event.Event{
		ID: fmt.Sprint(op, i), Op: op, Target: "core/pods", Resource: "pods", Version: "v1", Namespace: "jobs",
		Name: fmt.Sprint("pod-", i), UID: fmt.Sprint("u", i), ResourceVersion: uint64(2*i + 1), Data: make([]byte, size),
	}
}

// TestFullOfStates: Append waits while there is nothing to remove, and goes on when there is.
func TestFullOfStates(t *testing.T) {
	c := testConfig(t)
	c.MaxBytes, c.DeletedRetention = 1<<20, time.Nanosecond
	j := openJournal(t, c)
	defer j.Close() //nolint:errcheck // of a test
	slow, err := j.Open("slow", journal.FromNow)
	must(t, err)
	objects := func(op event.Op) (all []event.Event) {
		for i := range 300 {
			all = append(all, pod(op, i, 2000))
		}
		return all
	}
	must(t, j.Append(t.Context(), objects(event.Added)))
	done := make(chan error, 1)
	go func() { done <- j.Append(t.Context(), append(objects(event.Deleted), objects(event.Added)...)) }()
	waitFor(t, "Append waits", func() bool { return j.Stats().Blocked == 1 })
	go keepUp(t.Context(), t, slow)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Errorf("Append waits although the sink has passed all: %+v", j.Stats())
	}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestDirectory: a directory that is in use is refused; one that is removed while it is open ends the
// journal.
func TestDirectory(t *testing.T) {
	c := testConfig(t)
	j := openJournal(t, c)
	if _, err := journal.Open(c); err == nil || !strings.Contains(err.Error(), c.Dir) {
		t.Errorf("a directory in use: %v", err)
	}
	if _, _, err := journal.ReadDir(c.Dir); err == nil {
		t.Error("the history of a directory in use was read")
	}
	must(t, os.RemoveAll(c.Dir))
	select {
	case <-j.Failed():
	case <-time.After(time.Minute):
		t.Fatal("the journal does not notice that its directory was removed")
	}
	if err := j.Append(t.Context(), []event.Event{{Op: event.Added}}); err == nil || !j.Removed() {
		t.Errorf("Append = %v, Removed = %t", err, j.Removed())
	}
	if ok, reason := j.State(); ok || reason == "" {
		t.Errorf("State = %t, %q", ok, reason)
	}
	_ = j.Close()
}

// TestReadDir: the history of a journal that no process uses, after a crash with a torn end, in which
// nothing changes.
func TestReadDir(t *testing.T) {
	c := testConfig(t)
	j := openJournal(t, c)
	e := event.Event{Op: event.Added, Cluster: "test", Target: "core/pods", Resource: "pods", Version: "v1", Namespace: "default", Name: "a", UID: "u", ResourceVersion: 1, ID: "u:1", Data: []byte(`{}`)}
	must(t, errors.Join(j.Append(t.Context(), []event.Event{e}), journal.SyncAll(t.Context(), j), journal.Crash(j)))
	logs, err := filepath.Glob(filepath.Join(c.Dir, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	f, err := os.OpenFile(logs[0], os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("torn")
	}
	must(t, errors.Join(err, f.Close(), os.WriteFile(filepath.Join(c.Dir, "left.tmp"), nil, 0o600)))
	before := contents(t, c.Dir)
	h, closing, err := journal.ReadDir(c.Dir)
	must(t, err)
	of, err := h.Find(t.Context(), journal.Object{Resource: "pods", Namespace: "default", Name: "a"})
	var found []string
	if err == nil {
		err = h.Each(t.Context(), of, func(e event.Event) error {
			found = append(found, e.ID)
			return nil
		})
	}
	if err = errors.Join(err, closing()); err != nil || !slices.Equal(found, []string{"u:1"}) {
		t.Errorf("history of %s: %q, %v", of, found, err)
	}
	if diff := cmp.Diff(before, contents(t, c.Dir)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// contents returns the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range names(t, dir) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		all[name] = string(content)
	}
	return all
}

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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, j.Append(ctx, []event.Event{pod(event.Added, 1, 5000)}))
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
