package selection

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/metadatawatch"
)

const manyNamespaces, manySelecting = 10_000, 300

// selecting is many targets that select half of many namespaces by label.
type selecting struct {
	namespaces *Namespaces
	targets    []*Coverage
	revision   uint64
}

func newSelecting(tb testing.TB) *selecting {
	tb.Helper()
	logger := slog.New(slog.DiscardHandler)
	s := &selecting{revision: manyNamespaces}
	s.namespaces = &Namespaces{logger: logger, users: make(map[chan struct{}]Rule), views: make(map[Rule]*view)}
	rule := Rule{Selector: "on=yes"}
	objects := make([]metadatawatch.Object, manyNamespaces)
	for i := range objects {
		objects[i] = s.object(i, i%2 == 0)
	}
	s.namespaces.Listed(objects, s.revision, false)
	for range manySelecting {
		t := NewCoverage(rule, s.namespaces)
		t.Known, t.Changed = true, make(chan struct{}, 1)
		s.namespaces.users[t.Changed] = rule
		s.namespaces.viewOf(rule).users[t.Changed] = struct{}{}
		now, err := s.namespaces.begin(rule)
		if err != nil {
			tb.Fatal(err)
		}
		t.covered, t.seen, t.at = now.matching, now.seq, now.at
		t.publish()
		s.targets = append(s.targets, &t)
	}
	return s
}

func (s *selecting) object(i int, on bool) metadatawatch.Object {
	s.revision++
	set := labels.Set{"kubernetes.io/metadata.name": fmt.Sprintf("team-%05d", i), "revision": fmt.Sprint(s.revision)}
	if on {
		set["on"] = "yes"
	}
	return metadatawatch.Object{Name: fmt.Sprintf("team-%05d", i), UID: fmt.Sprint(i), RV: s.revision, Labels: set}
}

// change changes a namespace, and has the targets look.
func (s *selecting) change(tb testing.TB, i int, on bool) {
	tb.Helper()
	o := s.object(i, on)
	s.namespaces.Watched(watch.Modified, &o)
	for _, t := range s.targets {
		select {
		case <-t.Changed:
		default:
			continue
		}
		t.Due = true
		// As reselect does, but for the requests of a namespace that turns.
		now, arriving, departing, err := t.Look()
		if err != nil {
			tb.Fatal(err)
		}
		for _, name := range departing {
			t.covered = t.covered.without(name)
			t.publish()
		}
		for _, name := range arriving {
			t.covered = t.covered.with(name)
			t.publish()
		}
		if !t.covered.equals(&now.matching) {
			tb.Fatal("the covered namespaces are not those that match")
		}
		t.covered, t.seen, t.Due = now.matching, now.seq, false
		t.publish()
	}
}

// BenchmarkNamespaceEvent is what a Namespace event costs all targets together.
func BenchmarkNamespaceEvent(b *testing.B) {
	b.Run("other labels", func(b *testing.B) {
		s := newSelecting(b)
		for b.Loop() {
			s.change(b, 1, false)
		}
	})
	b.Run("turns", func(b *testing.B) {
		s := newSelecting(b)
		for on := false; b.Loop(); on = !on {
			s.change(b, 2, on)
		}
	})
}

// TestCostOfANamespaceEvent: what 300 targets allocate for an event of one of 10,000
// namespaces does not grow with the number of namespaces.
func TestCostOfANamespaceEvent(t *testing.T) {
	s := newSelecting(t)
	const events = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range events {
		s.change(t, 2, i%2 != 0)
		s.change(t, 1, false)
	}
	runtime.ReadMemStats(&after)
	each := (after.TotalAlloc - before.TotalAlloc) / (2 * events * manySelecting)
	if each > 8<<10 {
		t.Errorf("%d bytes for each target and event", each)
	}
}

// TestNamespaceView: whatever happens to namespaces, a target that asks now and then has
// those that match.
func TestNamespaceView(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	s := newSelecting(t)
	one := s.targets[0]
	labelled := make(map[string]bool)
	for i := range manyNamespaces {
		labelled[fmt.Sprintf("team-%05d", i)] = i%2 == 0
	}
	for round := range 60 {
		for range []int{1, 3, 40, 700, 3000}[random.IntN(5)] {
			o := s.object(random.IntN(manyNamespaces), random.IntN(2) == 0)
			kind := watch.Modified
			if random.IntN(10) == 0 {
				kind = watch.Deleted
			}
			labelled[o.Name] = kind != watch.Deleted && o.Labels["on"] == "yes"
			s.namespaces.Watched(kind, &o)
		}
		if round%20 == 19 {
			var objects []metadatawatch.Object
			for i := range manyNamespaces / 2 {
				objects = append(objects, s.object(i, random.IntN(2) == 0))
			}
			clear(labelled)
			for i := range objects {
				labelled[objects[i].Name] = objects[i].Labels["on"] == "yes"
			}
			s.namespaces.Listed(objects, s.revision, false)
		}
		now, arriving, departing, err := one.Look()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range arriving {
			if now.Arriving[name].since == 0 {
				t.Fatalf("it is not known when %s came to match", name)
			}
			one.covered = one.covered.with(name)
		}
		for _, name := range departing {
			one.covered = one.covered.without(name)
		}
		one.seen = now.seq
		maps.DeleteFunc(labelled, func(_ string, on bool) bool { return !on })
		want, got := slices.Sorted(maps.Keys(labelled)), slices.Sorted(one.covered.all())
		if !slices.Equal(want, got) || one.covered.len() != len(want) {
			t.Fatalf("round %d: %d names are covered, want %d", round, len(got), len(want))
		}
		if again := nameSetOf(slices.Values(want)); again.hash() != one.covered.hash() {
			t.Fatalf("round %d: the hash depends on how the set came to be", round)
		}
	}
}

// TestHashOfNames: a mark that an earlier version wrote, and one that this version wrote,
// say that nothing has turned.
func TestHashOfNames(t *testing.T) {
	names := nameSetOf(slices.Values([]string{"team-a", "team-b", "shop"}))
	if got := names.hash(); got != 0xdd019f2036dbd411 {
		t.Errorf("hash %#x", got)
	}
	if got := formerHash(&names); got != 0xe3772d019c2a829e {
		t.Errorf("former hash %#x", got)
	}
}
