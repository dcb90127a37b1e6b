package dynwatch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/event"
)

// wrong says how the end of a stream differs from the things that match.
func wrong(events []event.Event, api *fakeAPI, selecting bool) (faults []string) {
	last := make(map[string]event.Event)
	for _, e := range events {
		if !e.Op.Control() {
			last[e.UID] = e
		}
	}
	state := api.state()
	for _, c := range state {
		matches := !c.isNamespace() && strings.HasPrefix(c.ns, "team-") && c.ns != "team-x" &&
			state["/"+c.ns].label == "yes" && (!selecting || c.label == "yes")
		e, told := last[c.uid]
		switch is := told && !e.Op.Ends(); {
		case matches && (!is || e.ResourceVersion != c.rev):
			faults = append(faults, fmt.Sprintf("%s: last %s at %d, want %d", c.key(), e.Op, e.ResourceVersion, c.rev))
		case !matches && is:
			faults = append(faults, fmt.Sprintf("%s does not match: last %s", c.key(), e.Op))
		}
		delete(last, c.uid)
	}
	for uid, e := range last {
		if !e.Op.Ends() {
			faults = append(faults, fmt.Sprintf("%s is gone: last %s", uid, e.Op))
		}
	}
	return faults
}

// checkLegal holds a stream to what is promised of every object's events: it comes,
// changes, and leaves or is deleted, in revisions that do not go back and ordinals
// without holes.
func checkLegal(t *testing.T, events []event.Event) {
	t.Helper()
	ids, last, holder := make(map[string]bool), make(map[string]event.Event), make(map[string]string)
	for _, e := range events {
		if ids[e.ID] {
			t.Errorf("id %s repeated", e.ID)
		}
		if ids[e.ID] = true; e.Op.Control() {
			continue
		}
		prev, known := last[e.UID]
		in := known && !prev.Op.Ends()
		var legal bool
		switch e.Op {
		case event.Snapshot, event.Added:
			legal = !known
		case event.Entered:
			legal = !in && prev.Op != event.Deleted
		case event.Modified, event.Left:
			legal = in
		case event.Deleted:
			legal = in || !known // born and gone where nobody could see
		case event.Begin, event.Synced, event.Gap, event.State: // of no object
		}
		if !legal {
			t.Errorf("%s %s after %q", e.Op, e.ID, prev.Op)
		}
		same := e.Op == event.Left || e.Op == event.Entered
		if known && (e.ResourceVersion < prev.ResourceVersion || e.ResourceVersion == prev.ResourceVersion && !same) {
			t.Errorf("%s goes back from %d", e.ID, prev.ResourceVersion)
		}
		if known && (e.Ordinal != prev.Ordinal+1 || e.PrevResourceVersion != prev.ResourceVersion) || !known && e.Ordinal != 1 {
			t.Errorf("%s: ordinal %d prev %d, after ordinal %d revision %d", e.ID, e.Ordinal, e.PrevResourceVersion, prev.Ordinal, prev.ResourceVersion)
		}
		if h := holder[e.Key()]; h != "" && h != e.UID && !e.Op.Ends() {
			t.Errorf("%s while uid %s holds the name", e.ID, h)
		}
		if holder[e.Key()] = e.UID; e.Op.Ends() {
			delete(holder, e.Key())
		}
		last[e.UID] = e
	}
}
