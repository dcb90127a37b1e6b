package configfile

import (
	"slices"
	"strings"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/event"
)

// checkOps checks the operations of object events.
func (r *checker) checkOps(ops []string, path string) {
	r.checkItems(ops, path, func(op string) string {
		name := strings.TrimPrefix(op, "!")
		switch {
		case slices.Contains(config.NamesOf(event.Op.Control), name):
			return config.Quote(op) + " is a control event: use control, which is true, false or a list, as in control: [begin, synced, gap]"
		case name != op:
			return config.Quote(op) + ": ops has no !: list each operation that the sink gets"
		case !slices.Contains(config.NamesOf(config.ObjectOp), op):
			return "unknown operation " + config.Quote(op) + didYouMean(op, config.NamesOf(config.ObjectOp))
		}
		return ""
	})
}

// checkControl checks the control events of a match. It refuses a begin that never matches.
func (r *checker) checkControl(m config.Match, path string) {
	at := path + ".control"
	r.checkItems(m.Control, at, nil)
	if len(m.Control) > 0 && !slices.Contains(m.Control, string(event.Gap)) && !r.Bad(at) {
		r.Warn(r.place(at), at, "the sink does not learn of lost history: add %s to control, or use control: false for a consumer that needs no history", event.Gap)
	}
	i := slices.Index(m.Control, string(event.Begin))
	if i < 0 || r.Bad(path+".ops") || !r.given(config.Index(at, i)) {
		return
	}
	whole := slices.Contains(m.Control, string(event.Synced)) && m.Admits(event.Snapshot) && m.Admits(event.Added)
	r.refuse(!whole, config.Index(at, i), "%q has no effect without synced in control, and snapshot and added in ops: add them, or remove it", event.Begin)
}

// checkDeletions warns about a sink that gets the states of objects, and none of whose matches has an operation that
// a consumer's state needs: it would keep deleted objects, or lack objects that a re-snapshot does not repair.
func (r *checker) checkDeletions(s config.Sink, at string, resources []config.Resource) {
	i := slices.IndexFunc(s.Match, func(m config.Match) bool {
		return len(m.Ops) > 0 && (m.Admits(event.Added) || m.Admits(event.Modified))
	})
	if i < 0 || r.Bad(at+".match") {
		return
	}
	var missing []string
	for _, op := range []event.Op{event.Snapshot, event.Deleted, event.Left} {
		made := op != event.Left || slices.ContainsFunc(resources, config.Resource.Selects)
		if made && !slices.ContainsFunc(s.Match, func(m config.Match) bool { return m.Admits(op) }) {
			missing = append(missing, string(op))
		}
	}
	if len(missing) == 0 {
		return
	}
	without := ""
	if missing[0] == string(event.Snapshot) {
		without = "; without snapshot, first lists and informd resnapshot send it nothing"
	}
	path, names := config.Index(at+".match", i)+".ops", strings.Join(missing, ", ")
	r.Warn(r.place(path), path, "the sink gets no %s events: add %[1]s to ops if its consumer keeps state%s", names, without)
}
