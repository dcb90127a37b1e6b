package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/informer/informertest"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
)

// TestNoRowWithoutTheLog runs watches of a cluster into a log on a simulated disk, with sinks that
// keep what they read. The power is lost at one write after the other. After each loss the log has
// every row of every sink, and in the end each sink has what the cluster has.
func TestNoRowWithoutTheLog(t *testing.T) {
	for seed := range uint64(wholeSeeds) {
		synctest.Test(t, func(t *testing.T) {
			w := newWhole(t, seed)
			for n := 1; n < 160; n += 1 + w.rand.IntN(8) {
				w.live(n)
			}
			w.live(0)
			w.checkEnd()
		})
	}
}

// whole is the program between a cluster and its sinks, without the sinks' destinations.
type whole struct {
	t     *testing.T
	rand  *rand.Rand
	api   *informertest.Cluster
	disk  *disktest.Disk
	lives int
	sinks []*recordingSink // the last one begins behind some changes, with the states of objects
	mu    sync.Mutex
	ids   map[uint64]string // of all sequences that a sink has read
}

// recordingSink is a sink whose destination keeps all.
type recordingSink struct {
	name   string
	slow   bool
	events []event.Event
	rows   map[string]struct{} // of the events that make rows
}

func newWhole(t *testing.T, seed uint64) *whole {
	w := &whole{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), api: newCluster(), disk: disktest.New(seed), ids: map[uint64]string{},
		sinks: []*recordingSink{{name: "quick"}, {name: "slow", slow: true}, {name: "late"}},
	}
	for _, s := range w.sinks {
		s.rows = map[string]struct{}{}
	}
	t.Logf("seed %d", seed)
	return w
}

func newCluster() *informertest.Cluster {
	api := informertest.New()
	api.Put(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system"}})
	return api
}

// watch watches resources of a cluster into a journal.
func watch(t *testing.T, api *informertest.Cluster, j *journal.Journal, resources ...dynwatch.Resource) *dynwatch.Manager {
	t.Helper()
	m, err := dynwatch.New(dynwatch.Options{
		Cluster: "test", Kubernetes: api.Config(), Log: j, RedactionKey: []byte("0123456789abcdef"), AuditEvery: -1,
		Reject: func(context.Context, dynwatch.Rejected) error { return nil }, Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	must(t, m.Apply(resources))
	return m
}

// live is the life of one process, which ends with a power loss at the changing call n of the disk, or,
// if n is 0, when each sink has read all.
func (w *whole) live(n int) {
	w.t.Helper()
	w.lives++
	w.disk.Set(disktest.Faults{PowerAfter: n})
	config := journal.Config{Cluster: "test", Logger: slog.New(slog.DiscardHandler)}
	j, err := journal.OpenOn(w.disk, config, fmt.Sprint("boot ", w.lives), 4096)
	if err != nil {
		if n == 0 || !errors.Is(err, disktest.ErrPowerLost) {
			w.t.Fatal(err)
		}
		w.disk.Restart()
		return
	}
	w.checkRows(j)
	w.run(j, n == 0)
	journal.Kill(j)
	w.disk.Restart()
}

// run watches, and changes the cluster, until the disk fails or all is done.
func (w *whole) run(j *journal.Journal, finish bool) {
	m := watch(w.t, w.api, j, dynwatch.Resource{Resource: "configmaps"}, dynwatch.Resource{Resource: "pods", LabelSelector: "in=yes"},
		dynwatch.Resource{Resource: "services", EmitWhen: dynwatch.EmitWhen{Changed: []string{"metadata.labels"}}})
	ctx, stop := context.WithCancel(w.t.Context())
	var sinks sync.WaitGroup
	for _, s := range w.sinks[:2] {
		sinks.Go(func() { w.deliver(ctx, j, s) })
	}
	late := w.rand.IntN(8)
	for i := range 60 {
		w.change()
		if i == late {
			<-time.After(time.Millisecond) // the change is in the log, and not synced if it is soft
			sinks.Go(func() { w.deliver(ctx, j, w.sinks[2]) })
		}
		select {
		case <-j.Failed():
		case <-time.After(time.Duration(w.rand.IntN(300)) * time.Millisecond):
			continue
		}
		break
	}
	if finish {
		<-time.After(2 * time.Minute) // every pause after an error is shorter
	}
	stop()
	sinks.Wait()
	m.Close()
}

// change does something to one of a few objects.
func (w *whole) change() {
	kinds := []string{"ConfigMap", "Pod", "Service"}
	resources := []string{"configmaps", "pods", "services"}
	kind, name := w.rand.IntN(3), fmt.Sprint("n", w.rand.IntN(4))
	switch w.rand.IntN(12) {
	case 0, 1, 2:
		w.api.Delete(schema.GroupResource{Resource: resources[kind]}, "default", name)
	case 3:
		w.api.Outage(func() {
			w.api.Delete(schema.GroupResource{Resource: resources[kind]}, "default", name)
			w.api.Compact()
		})
	default:
		w.api.Put(map[string]any{
			"apiVersion": "v1", "kind": kinds[kind], "spec": map[string]any{"n": w.rand.IntN(1 << 30)},
			"metadata": map[string]any{"namespace": "default", "name": name, "labels": map[string]any{"in": []string{"yes", "yes", "no"}[w.rand.IntN(3)]}},
		})
	}
}

// deliver is one sink. Its destination has what it has, whatever becomes of the log.
func (w *whole) deliver(ctx context.Context, j *journal.Journal, s *recordingSink) {
	c, err := j.Open(s.name, journal.FromSnapshot)
	for err == nil {
		var entries []journal.Entry
		if entries, err = c.Read(ctx, 16); err != nil {
			return
		}
		_, first := journal.Position(c)
		for _, e := range entries {
			e.Event.Data = nil
			s.take(e.Event, first)
			if !first {
				w.used(e)
			}
			first = first && e.Seq == 0 // the last entry of a first snapshot has the sequence that completes it
		}
		if s.slow {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		if last := entries[len(entries)-1].Seq; last > 0 {
			err = c.Commit(last)
		}
	}
}

// used compares the sequence of an event with what had it before.
func (w *whole) used(e journal.Entry) {
	if e.Seq == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if id := w.ids[e.Seq]; id != "" && id != e.Event.ID {
		w.t.Errorf("sequence %d is of %s and of %s", e.Seq, id, e.Event.ID)
	}
	w.ids[e.Seq] = e.Event.ID
}

// take keeps an event. In a first snapshot the bounds are of this sink alone, and states have another
// run in the log.
func (s *recordingSink) take(e event.Event, first bool) {
	s.events = append(s.events, e)
	filtered := e.Resource == "services" && !e.Op.Ends()
	switch {
	case first && e.Op.Bounds():
	case e.Op == event.State:
	case e.Op.Control(), e.Replay, filtered, e.Op == event.Snapshot, e.Op == event.Added, e.Op == event.Entered, e.Op == event.Left:
		s.rows[rowOf(&e)] = struct{}{}
	}
}

// rowOf identifies what an event makes a row of: an object at a revision, or a control event.
func rowOf(e *event.Event) string {
	if e.Op.Control() {
		return e.ID
	}
	what, _, epoch := event.ParseID(e.ID)
	return fmt.Sprint(what, " ", epoch)
}

// checkRows compares the rows of all sinks with the log.
func (w *whole) checkRows(j *journal.Journal) {
	all, err := journal.Events(j)
	must(w.t, err)
	has := map[string]bool{}
	for _, e := range all {
		has[rowOf(&e.Event)] = true
	}
	for _, s := range w.sinks {
		for id := range s.rows {
			if !has[id] {
				w.t.Errorf("life %d: sink %s has %s, and the log lacks it", w.lives, s.name, id)
			}
		}
	}
}

// checkEnd compares what each sink has with the cluster.
func (w *whole) checkEnd() {
	want := map[string]string{}
	for _, resource := range []string{"configmaps", "pods", "services"} {
		for _, o := range w.api.Objects(schema.GroupResource{Resource: resource}) {
			if resource != "pods" || o.GetLabels()["in"] == "yes" {
				want[resource+"/"+o.GetName()] = string(o.GetUID())
			}
		}
	}
	for _, s := range w.sinks {
		got, live := map[string]string{}, map[string]bool{}
		for i := range s.events {
			e := &s.events[i]
			switch key := e.Resource + "/" + e.Name; {
			case e.Gap != nil && (e.Gap.Reason == "journal" || e.Gap.Reason == "trimmed"):
				w.t.Errorf("sink %s: a power loss is declared as %+v", s.name, *e.Gap)
			case e.Op.Control():
			case e.Op.Ends():
				delete(live, e.UID)
				if got[key] == e.UID {
					delete(got, key)
				}
			default:
				got[key], live[e.UID] = e.UID, true
			}
		}
		for key, uid := range want {
			if got[key] != uid {
				w.t.Errorf("sink %s: %s is %q, want %s", s.name, key, got[key], uid)
			}
		}
		if len(live) != len(want) || len(got) != len(want) {
			w.t.Errorf("sink %s: %d objects without an end, want %d", s.name, len(live), len(want))
		}
	}
}
