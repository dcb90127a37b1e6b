package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// TestSpace: nine tenths of the events are of a hundred objects in one namespace, and a sink is down or
// keeps up. The log stays within its limit, Append goes on, no other namespace loses an event, the sink
// gets the number of what it lacks, and compaction writes about what was appended.
func TestSpace(t *testing.T) {
	for name, test := range map[string]struct {
		namespace string
		down      bool
	}{"a sink is down": {"greedy", true}, "cluster-scoped objects": {"", true}, "sinks keep up": {"greedy", false}} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t)
			c.MaxBytes = 4 << 20
			j := openJournal(t, c)
			slow, err := j.Open("slow", journal.FromNow)
			if err != nil {
				t.Fatal(err)
			}
			fast, err := j.Open("fast", journal.FromNow)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			go keepUp(ctx, t, fast)
			if !test.down {
				go keepUp(ctx, t, slow)
			}
			behind := func() bool { return !test.down && slow.Lag().Events+fast.Lag().Events > 200 }
			data := make([]byte, 5000)
			const events = 5000
			most := int64(0)
			for i := range events {
				e := event.Event{Op: event.Modified, Cluster: "test", Target: "core/pods", Resource: "pods", Version: "v1", Namespace: test.namespace, Name: fmt.Sprint("pod-", i%100), UID: "u", ResourceVersion: uint64(i + 1), Data: data}
				if i%10 == 0 {
					e.Namespace, e.Name = fmt.Sprint("tenant-", i/10%9), fmt.Sprint("pod-", i%7)
					e.Data = data[:500]
				}
				e.ID = event.ObjectID(e.Name, e.ResourceVersion, 0)
				if err := j.Append(ctx, []event.Event{e}); err != nil {
					t.Fatalf("event %d: %v; %+v", i, err, j.Stats())
				}
				most = max(most, journal.LogStats(j).Bytes)
				waitFor(t, "sinks keep up", func() bool { return !behind() })
			}
			stats := journal.LogStats(j)
			if segment := c.MaxBytes / 16; most > c.MaxBytes+segment {
				t.Errorf("the log had %d bytes, of %d", most, c.MaxBytes)
			}
			if ratio := float64(stats.Written) / float64(stats.Appended); ratio > 2.1 {
				t.Errorf("%.2f bytes were written for each that was appended", ratio)
			} else {
				t.Logf("%.2f bytes were written for each that was appended; at most %d MiB", ratio, most>>20)
			}
			if test.down {
				wantShare(ctx, t, j, slow, test.namespace, events)
			} else if d := j.Stats().Dropped; len(d) > 0 {
				t.Errorf("dropped: %v", d)
			}
			cancel()
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// wantShare wants a sink that was down to get all events but some of a namespace, which gaps count.
func wantShare(ctx context.Context, t *testing.T, j *journal.Journal, c *journal.Cursor, greedy string, all int) {
	t.Helper()
	got, lacks := map[bool]int{}, 0
	for got[true]+got[false]+lacks < all {
		entries, err := c.Read(ctx, 100)
		if err != nil {
			t.Fatalf("after %v and %d that are lacking: %v", got, lacks, err)
		}
		for _, e := range entries {
			if e.Event.Gap != nil {
				lacks += int(e.Event.Gap.Trimmed)
			} else {
				got[e.Event.Namespace == greedy]++
			}
		}
	}
	if got[false] != all/10 || lacks == 0 || got[true] == 0 {
		t.Errorf("of %d events the sink got %d of the namespace, %d of others, and lacks %d", all, got[true], got[false], lacks)
	}
	waitFor(t, "what the sink lacks is counted", func() bool {
		d := j.Stats().Dropped
		return len(d) == 1 && d[greedy]+d[journal.ClusterScoped] >= uint64(lacks)
	})
}

// TestFullOfStates: Append waits while there is nothing to remove, and goes on when there is.
func TestFullOfStates(t *testing.T) {
	c := testConfig(t)
	c.MaxBytes, c.DeletedRetention = 1<<20, time.Nanosecond
	j := openJournal(t, c)
	defer j.Close() //nolint:errcheck // of a test
	slow, err := j.Open("slow", journal.FromNow)
	if err != nil {
		t.Fatal(err)
	}
	objects := func(op event.Op) (all []event.Event) {
		for i := range 300 {
			all = append(all, event.Event{ID: fmt.Sprint(op, i), Op: op, Target: "core/pods", Resource: "pods", Name: fmt.Sprint("pod-", i), UID: "u", Data: make([]byte, 2000)})
		}
		return all
	}
	if err := j.Append(t.Context(), objects(event.Added)); err != nil {
		t.Fatal(err)
	}
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
	if err := os.RemoveAll(c.Dir); err != nil {
		t.Fatal(err)
	}
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
	if err := errors.Join(j.Append(t.Context(), []event.Event{e}), journal.SyncAll(t.Context(), j), journal.Crash(j)); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(c.Dir, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	f, err := os.OpenFile(logs[0], os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("torn")
	}
	if err = errors.Join(err, f.Close(), os.WriteFile(filepath.Join(c.Dir, "left.tmp"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	before := contents(t, c.Dir)
	h, closing, err := journal.ReadDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(content)
	}
	return all
}
