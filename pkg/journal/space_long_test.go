//go:build long

package journal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

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
			must(t, err)
			fast, err := j.Open("fast", journal.FromNow)
			must(t, err)
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
				e.ID = form.ObjectID(e.Name, e.ResourceVersion, 0)
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
			must(t, j.Close())
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
