package selection

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

const manyNamespaces, manySelecting = 10_000, 300

// selecting is many targets that select half of many namespaces by label.
type selecting struct {
	namespaces *Namespaces
	targets    []*Coverage
	revision   uint64
}

func newSelecting(tb testing.TB, targets int) *selecting {
	tb.Helper()
	s := &selecting{revision: manyNamespaces, namespaces: newNamespaces()}
	objects := make([]listwatch.MetadataObject, manyNamespaces)
	for i := range objects {
		objects[i] = s.object(i, i%2 == 0)
	}
	s.namespaces.Listed(objects, s.revision, false)
	for range targets {
		s.targets = append(s.targets, s.namespaces.target(tb, 0))
	}
	return s
}

func newNamespaces() *Namespaces {
	n := &Namespaces{logger: slog.New(slog.DiscardHandler), views: make(map[Rule]*view)}
	n.views[Rule{Selector: "none"}] = newView(Rule{Selector: "none"}) // so that no watch is started
	return n
}

// target is one that begins at a position with the namespaces that match.
func (n *Namespaces) target(tb testing.TB, position uint64) *Coverage {
	tb.Helper()
	c := NewCoverage(Rule{Selector: "on=yes"}, n)
	if begun, err := c.Begin(listwatch.Timing{}, position, 0); !begun || err != nil {
		tb.Fatalf("begun: %t, error %v", begun, err)
	}
	c.Known = true
	return &c
}

// listed are Namespaces after a list that holds those that match.
func listed(matching ...string) *Namespaces {
	n := newNamespaces()
	var objects []listwatch.MetadataObject
	for _, name := range matching {
		objects = append(objects, listwatch.MetadataObject{Name: name, RV: 1, Labels: labels.Set{"on": "yes"}})
	}
	n.Listed(objects, 100, false)
	return n
}

func (s *selecting) object(i int, on bool) listwatch.MetadataObject {
	s.revision++
	set := labels.Set{"kubernetes.io/metadata.name": fmt.Sprintf("team-%05d", i), "revision": fmt.Sprint(s.revision)}
	if on {
		set["on"] = "yes"
	}
	return listwatch.MetadataObject{Name: fmt.Sprintf("team-%05d", i), UID: fmt.Sprint(i), RV: s.revision, Labels: set}
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
		// As Reselect does, but for the requests of a namespace that flips.
		now, err := t.Look()
		if err != nil {
			tb.Fatal(err)
		}
		for name := range now.Unmatch {
			t.Uncover(name, Flip{}, Leaving{}, false)
		}
		for name := range now.Match {
			t.Cover(name)
		}
		for name := range now.Match {
			if !t.Filter.Covers(name) {
				tb.Fatal("a namespace that matches is not covered")
			}
		}
		t.Settle(now)
	}
}

// TestCostOfANamespaceEvent: what 300 targets allocate for an event of one of 10,000
// namespaces does not grow with the number of namespaces.
func TestCostOfANamespaceEvent(t *testing.T) {
	s := newSelecting(t, manySelecting)
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
	s := newSelecting(t, 2)
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
			var objects []listwatch.MetadataObject
			for i := range manyNamespaces / 2 {
				objects = append(objects, s.object(i, random.IntN(2) == 0))
			}
			clear(labelled)
			for i := range objects {
				labelled[objects[i].Name] = objects[i].Labels["on"] == "yes"
			}
			s.namespaces.Listed(objects, s.revision, false)
		}
		now, err := one.Look()
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range now.Match {
			if f.At == 0 {
				t.Fatalf("it is not known when %s matched", name)
			}
			one.Cover(name)
		}
		for name := range now.Unmatch {
			one.Uncover(name, Flip{}, Leaving{}, false)
		}
		for i := range manyNamespaces {
			name := fmt.Sprintf("team-%05d", i)
			if want := labelled[name]; one.Filter.Covers(name) != want {
				t.Fatalf("round %d: %s is covered: %t, want %t", round, name, !want, want)
			}
		}
		one.Settle(now)
		maps.DeleteFunc(labelled, func(_ string, on bool) bool { return !on })
		if len(one.labelled.view.names) != len(labelled) {
			t.Fatalf("round %d: %d names match, want %d", round, len(one.labelled.view.names), len(labelled))
		}
		hash := uint64(0)
		for name := range labelled {
			hash += hashOfName(name)
		}
		if one.Mark().Hash != hash {
			t.Fatalf("round %d: the hash depends on how the set came to be", round)
		}
	}
}

// TestHashOfNames: the hash in a mark is the same in every process.
func TestHashOfNames(t *testing.T) {
	if got := hashOfName("team-a") + hashOfName("team-b") + hashOfName("shop"); got != 0xdd019f2036dbd411 {
		t.Errorf("hash %#x", got)
	}
	if listed().target(t, 0).Mark().Hash == 0 {
		t.Error("no namespaces count as unknown")
	}
}

// TestFlips: where a target begins with a namespace that matches.
func TestFlips(t *testing.T) {
	const position = 120
	tests := map[string]struct {
		change func(*Coverage)
		flip   Flip
		at     uint64
		missed bool
	}{
		"nothing was filtered out": {flip: Flip{110, 109}, at: position},
		"only before it matched":   {func(c *Coverage) { c.Filters("a", 109) }, Flip{110, 109}, position, false},
		"since it matched":         {func(c *Coverage) { c.Filters("a", 111) }, Flip{110, 109}, position, true},
		"since it left":            {func(c *Coverage) { c.labelled.leaving["a"] = Leaving{Until: 112}; c.Left("a"); c.Filters("a", 113) }, Flip{110, 109}, position, true},
		"while it left":            {func(c *Coverage) { c.labelled.leaving["a"] = Leaving{Until: 112}; c.Filters("a", 111); c.Left("a") }, Flip{110, 109}, position, false},
		"nobody knows when":        {func(c *Coverage) { c.Filters("a", 107) }, Flip{110, 105}, position, true},
		"nobody knows what":        {func(c *Coverage) { c.Compared(115) }, Flip{110, 109}, position, true},
		"after what is not known":  {func(c *Coverage) { c.Compared(105) }, Flip{110, 109}, position, false},
		"the log is ahead":         {func(c *Coverage) { c.ahead = 121 }, Flip{110, 109}, 0, false},
		"a list was ahead":         {func(c *Coverage) { c.Cover("a"); c.Began("a", 121, position) }, Flip{110, 109}, 0, false},
		"another store":            {func(c *Coverage) { c.Apart = true }, Flip{110, 109}, 0, true},
		"listed since":             {func(c *Coverage) { c.Filters("a", 111); c.Began("a", 120, position) }, Flip{110, 109}, position, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := listed().target(t, 100)
			if tt.change != nil {
				tt.change(c)
			}
			if at, missed := c.Start("a", tt.flip, position); at != tt.at || missed != tt.missed {
				t.Errorf("at %d, missed %t; want %d, %t", at, missed, tt.at, tt.missed)
			}
		})
	}
}

// TestFailedMatch: a namespace that could not be listed still matches, since the same revision.
func TestFailedMatch(t *testing.T) {
	c := listed().target(t, 100)
	c.Namespaces.Watched(watch.Modified, &listwatch.MetadataObject{Name: "a", RV: 110, Labels: labels.Set{"on": "yes"}})
	c.Cover("a")
	c.Uncover("a", Flip{110, 109}, Leaving{Broken: 109}, true)
	now, err := c.Look()
	if err != nil || now.Match["a"] != (Flip{110, 109}) || len(now.Unmatch) > 0 {
		t.Errorf("%+v, %v", now, err)
	}
	c.Namespaces.Watched(watch.Modified, &listwatch.MetadataObject{Name: "a", RV: 120, Labels: labels.Set{"on": "no"}})
	if now, err = c.Look(); err != nil || len(now.Match) > 0 || now.Unmatch["a"] != (Flip{At: 120}) {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestMatchesAgain: a namespace that matches again while the target unmatches it does so since that revision.
func TestMatchesAgain(t *testing.T) {
	c := listed("a").target(t, 100)
	c.Namespaces.Watched(watch.Modified, &listwatch.MetadataObject{Name: "a", RV: 110, Labels: labels.Set{"on": "no"}})
	if now, err := c.Look(); err != nil || now.Unmatch["a"].At != 110 {
		t.Fatalf("%+v, %v", now, err)
	}
	c.Namespaces.Watched(watch.Modified, &listwatch.MetadataObject{Name: "a", RV: 120, Labels: labels.Set{"on": "yes"}})
	c.Uncover("a", Flip{After: 110}, Leaving{Cause: 110}, true)
	if now, err := c.Look(); err != nil || now.Match["a"] != (Flip{120, 110}) || len(now.Unmatch) > 0 {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestFilteredNamespacesAreBounded: namespaces without number have frames. What is forgotten
// counts as unknown, which makes a gap.
func TestFilteredNamespacesAreBounded(t *testing.T) {
	const names, first = 100_000, uint64(1000)
	c := listed().target(t, first)
	for i := range uint64(names) {
		if !c.Filters(fmt.Sprint("team-", i), first+i) {
			t.Fatal("a frame of a namespace that does not match counts")
		}
		if len(c.filtered) > maxFiltered {
			t.Fatalf("%d names of namespaces are kept", len(c.filtered))
		}
	}
	last := first + names
	if _, missed := c.Start("team-0", Flip{first + 1, first}, last); !missed {
		t.Error("the frames since a forgotten revision count as known")
	}
	if _, missed := c.Start("team-0", Flip{last + 1, last}, last); missed {
		t.Error("a namespace that matches later has no other frames")
	}
}
