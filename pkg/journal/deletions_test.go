package journal_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
)

// TestDeletionsThatAreHistory: however many objects come and go, deletions that all sinks have take a bounded part of
// memory and disk. What a sink lacks stays, and so do the last minutes, and what left the selection.
func TestDeletionsThatAreHistory(t *testing.T) {
	const many, batch = 100_000, 1000
	end := func(op event.Op, names ...string) (all []event.Event) {
		for _, name := range names {
			all = append(all, event.Event{
				ID: name, Op: op, Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps", Kind: "ConfigMap",
				Namespace: "default", Name: name, UID: name, ResourceVersion: 7, Data: []byte(`{}`),
			})
		}
		return all
	}
	for name, test := range map[string]struct {
		deleted int // before the last minutes
		unread  bool
		short   bool
		want    string
	}{
		"many":                  {deleted: many, want: "fresh left"},
		"fewer":                 {deleted: batch, want: "fresh left old"},
		"many, unread":          {deleted: many, unread: true, want: "fresh left old"},
		"fewer, short of space": {deleted: batch, short: true, want: "fresh left"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := func(d disk.Dir) (*journal.Journal, *journal.Cursor) {
					j, err := journal.OpenOn(d, journal.Config{Cluster: "test", Logger: slog.New(slog.DiscardHandler)}, "boot", 1<<20)
					must(t, err)
					c, err := j.Open("bus", journal.FromNow)
					must(t, err)
					return j, c
				}
				d := disktest.New(1)
				j, c := open(d)
				must(t, j.Append(t.Context(), append(end(event.Left, "left"), end(event.Deleted, "old")...)))
				for i := 0; i < test.deleted; i += batch {
					names := make([]string, batch)
					for n := range names {
						names[n] = fmt.Sprint("other-", i+n)
					}
					must(t, j.Append(t.Context(), end(event.Deleted, names...)))
				}
				<-time.After(11 * time.Minute)
				must(t, j.Append(t.Context(), end(event.Deleted, "fresh")))
				if !test.unread {
					must(t, c.Commit(uint64(test.deleted)+3))
				}
				must(t, j.Close())
				j, _ = open(d) // what was appended since the last start is not written again
				defer journal.Kill(j)
				if test.short {
					journal.SetLimit(j, 1)
				}
				must(t, j.Compact(t.Context(), test.short))
				var kept []string
				_, err := j.Restore(t.Context(), "core/configmaps", func(e event.Event) {
					if !strings.HasPrefix(e.Name, "other-") {
						kept = append(kept, e.Name)
					}
				})
				must(t, err)
				if slices.Sort(kept); strings.Join(kept, " ") != test.want {
					t.Errorf("kept are the ends of %q, want %s", kept, test.want)
				}
			})
		})
	}
}
