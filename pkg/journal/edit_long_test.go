//go:build long

package journal_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/informer/informertest"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
)

// TestEditOverAPowerLoss loses the power at each change of the disk that follows from an edit of a selector. What the
// log has forgotten may be lost with its end. No sink sees an end of an object that is excluded, and an edit back
// announces each of them.
func TestEditOverAPowerLoss(t *testing.T) {
	for seed := range uint64(3) {
		lost := true
		for n := 1; lost && !t.Failed(); n += 1 + int(seed) {
			synctest.Test(t, func(t *testing.T) { lost = editOverAPowerLoss(t, seed, n) })
			if t.Failed() {
				t.Errorf("seed %d, power loss at change %d of the disk", seed, n)
			}
		}
	}
}

// edited is a cluster with objects that a selector excludes, and the log.
type edited struct {
	t    *testing.T
	api  *informertest.Cluster
	disk *disktest.Disk
	boot int
}

func (e *edited) open() (*journal.Journal, error) {
	e.boot++
	return journal.OpenOn(e.disk, journal.Config{Cluster: "test", Logger: slog.New(slog.DiscardHandler)}, fmt.Sprint("boot ", e.boot), 2048)
}

// live watches what a selector selects until it has caught up, or the disk fails, and returns what a sink read.
func (e *edited) live(j *journal.Journal, selector, sink string) (read []event.Event) {
	m := watch(e.t, e.api, j, dynwatch.Resource{Resource: "configmaps", LabelSelector: selector})
	select {
	case <-j.Failed():
	case <-time.After(time.Minute):
	}
	m.Close()
	c, err := j.Open(sink, journal.FromSnapshot)
	for more := true; more && err == nil; {
		<-time.After(2 * time.Second) // all is synced then
		var entries []journal.Entry
		entries, err = journal.Poll(e.t.Context(), c, 100)
		for i := range entries {
			read = append(read, entries[i].Event)
			if gap := entries[i].Event.Gap; gap != nil && gap.Reason == "journal" {
				e.t.Errorf("an edit is taken for a loss: %+v", *gap)
			}
			if err == nil && entries[i].Seq > 0 {
				err = c.Commit(entries[i].Seq)
			}
		}
		more = len(entries) > 0
	}
	if err == nil {
		err = journal.Save(j)
	}
	if err != nil && j.Failure() == nil {
		e.t.Fatal(err)
	}
	journal.Kill(j)
	return read
}

// byOp has the names of the objects of events, in order, by operation.
func byOp(events []event.Event) map[event.Op][]string {
	all := map[event.Op][]string{}
	for i := range events {
		if e := &events[i]; !e.Op.Control() {
			all[e.Op] = append(all[e.Op], e.Name)
		}
	}
	for _, list := range all {
		slices.Sort(list)
	}
	return all
}

func editOverAPowerLoss(t *testing.T, seed uint64, n int) (lost bool) {
	e := &edited{t: t, api: newCluster(), disk: disktest.New(seed)}
	for _, in := range []string{"yes", "no"} {
		for i := range 3 {
			e.api.Put(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
				"namespace": "default", "name": fmt.Sprint(in, i), "labels": map[string]any{"in": in},
			}})
		}
	}
	next := func() *journal.Journal {
		t.Helper()
		j, err := e.open()
		must(t, err)
		return j
	}
	e.live(next(), "", "sink")
	e.disk.Set(disktest.Faults{PowerAfter: n})
	if j, err := e.open(); err == nil {
		e.live(j, "in=yes", "sink")
	} else if !errors.Is(err, disktest.ErrPowerLost) {
		t.Fatal(err)
	}
	_, err := e.disk.Names()
	if lost = err != nil; lost {
		e.disk.Restart()
	}
	e.disk.Set(disktest.Faults{})

	selected, excluded := []string{"yes0", "yes1", "yes2"}, []string{"no0", "no1", "no2"}
	seen := byOp(e.live(next(), "in=yes", "sink"))
	delete(seen, event.Snapshot) // again, if the position of the sink was lost
	if len(seen) > 0 {
		t.Errorf("a sink got %v after the edit", seen)
	}
	j := next()
	known := map[string]bool{}
	at, err := j.Restore(t.Context(), "core/configmaps", func(e event.Event) { known[e.Name] = true })
	if got := slices.Sorted(maps.Keys(known)); err != nil || at.Void || !slices.Equal(got, selected) {
		t.Errorf("the log knows %q, void: %t, %v", got, at.Void, err)
	}
	if got := byOp(e.live(j, "in=yes", "new")); len(got) != 1 || !slices.Equal(got[event.Snapshot], selected) {
		t.Errorf("a new sink got %v", got)
	}
	if got := byOp(e.live(next(), "", "new")); len(got) != 1 || !slices.Equal(got[event.Snapshot], excluded) {
		t.Errorf("a sink got %v after the edit back", got)
	}
	return lost
}
