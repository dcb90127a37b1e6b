package dynwatch_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/informd/informd/pkg/event"
)

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

// checkStream holds a whole stream of one target without selector against the
// fake's history: nothing repeated, chains unbroken, order kept, every revision
// there or inside a declared gap, final states and deletions right.
func checkStream(t *testing.T, events []event.Event, api *fakeAPI) {
	t.Helper()
	type object struct {
		uid string
		rv  uint64
	}
	ids := make(map[string]bool)
	last := make(map[string]event.Event) // by uid
	state := make(map[string]object)
	delivered := make(map[string]bool)
	var gaps []event.GapInfo
	for _, e := range events {
		if ids[e.ID] {
			t.Errorf("id %s repeated", e.ID)
		}
		ids[e.ID] = true
		if e.Op == event.Gap {
			gaps = append(gaps, *e.Gap)
		}
		if e.Op.Control() {
			continue
		}
		prev, known := last[e.UID]
		if known && prev.Op == event.Deleted {
			t.Errorf("%s %s after the deletion of its uid", e.Op, e.ID)
		}
		if e.PrevResourceVersion != prev.ResourceVersion || e.Ordinal != prev.Ordinal+1 {
			t.Errorf("%s: chain broken: prev %d ordinal %d after revision %d ordinal %d", e.ID, e.PrevResourceVersion, e.Ordinal, prev.ResourceVersion, prev.Ordinal)
		}
		if known && e.ResourceVersion <= prev.ResourceVersion && !e.Reannounced() {
			t.Errorf("%s: revision went from %d to %d", e.ID, prev.ResourceVersion, e.ResourceVersion)
		}
		last[e.UID] = e
		key := e.Namespace + "/" + e.Name
		if old, ok := state[key]; ok && old.uid != e.UID {
			t.Errorf("%s %s while uid %s holds the name", e.Op, e.ID, old.uid)
		}
		if e.Op == event.Deleted {
			delete(state, key)
		} else {
			state[key] = object{e.UID, e.ResourceVersion}
			delivered[fmt.Sprintf("%s:%d", e.UID, e.ResourceVersion)] = true
		}
	}
	want := api.state()
	for key, c := range want {
		if state[key] != (object{c.uid, c.rev}) {
			t.Errorf("final state of %s: got %v, want %s at %d", key, state[key], c.uid, c.rev)
		}
	}
	for key, o := range state {
		if _, ok := want[key]; !ok {
			t.Errorf("%s (%s) is gone, and nobody said so", key, o.uid)
		}
	}
	lives := lives(api.changes())
	for _, c := range api.changes() {
		excused := slices.ContainsFunc(gaps, func(g event.GapInfo) bool {
			brief := lives[c.uid].from > g.From && lives[c.uid].to != 0 && lives[c.uid].to <= g.To
			return g.From < c.rev && c.rev <= g.To && (g.Recovered != event.RecoveredKnown || brief)
		})
		switch {
		case excused:
		case c.deleted && !ids[c.uid+":deleted"]:
			t.Errorf("deletion of %s at %d is missing and in no gap", c.uid, c.rev)
		case !c.deleted && !delivered[fmt.Sprintf("%s:%d", c.uid, c.rev)]:
			t.Errorf("%s at %d is missing and in no gap", c.uid, c.rev)
		}
	}
}

// span is the revisions at which an object was born and died, 0 if not yet.
type span struct{ from, to uint64 }

func lives(changes []change) map[string]span {
	all := make(map[string]span)
	for _, c := range changes {
		s := all[c.uid]
		if c.created {
			s.from = c.rev
		}
		if c.deleted {
			s.to = c.rev
		}
		all[c.uid] = s
	}
	return all
}
