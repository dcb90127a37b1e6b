package journal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
)

// TestHangingDisk: a write or sync that does not return shows in the state. Close gives up, and the next
// process continues.
func TestHangingDisk(t *testing.T) {
	a := event.Event{Resource: "configmaps", Namespace: "default", Name: "a"}
	for _, call := range []string{"write", "fsync", "create"} {
		t.Run(call, func(t *testing.T) {
			l := newLogTest(t, history(1), func(c *journal.Config) { journal.Hasty(c, 150*time.Millisecond) })
			c := l.cursor("sink", journal.FromNow)
			l.add("added a", "added b", "modified b", "modified b", "modified b", "modified b", "modified b", "modified b")
			l.read(c)
			l.commit(c)
			l.ok(journal.Save(l.Journal))
			l.ok(journal.SyncAll(t.Context(), l.Journal))
			answers := make(chan struct{})
			l.disk.Set(disktest.On(call, func() error {
				<-answers
				return nil
			}))
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 8 { // more than a segment
					_ = l.Append(l.t.Context(), []event.Event{l.event("modified b")})
				}
			}()
			waitFor(t, "the state is red", func() bool { ok, _ := l.State(); return !ok && l.Hung() })
			if _, reason := l.State(); !strings.Contains(reason, "has not answered for") {
				t.Error(reason)
			}
			if call == "write" || call == "fsync" {
				if err := l.Close(); err == nil || !strings.Contains(err.Error(), "does not answer") {
					t.Errorf("Close = %v", err)
				}
			}
			close(answers)
			<-done
			waitFor(t, "the state is green", func() bool { return !l.Hung() })
			journal.Kill(l.Journal)
			l.disk.Restart()
			l.open()
			if _, ok, err := l.Last(t.Context(), &a); !ok || err != nil {
				t.Errorf("the next process has the object: %t, %v", ok, err)
			}
		})
	}
}
