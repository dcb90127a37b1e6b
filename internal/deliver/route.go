package deliver

import (
	"path"
	"slices"

	"github.com/informd/informd/pkg/event"
)

// Match is one entry of a sink's `match`: all of its conditions must hold.
type Match struct {
	// Group is an API group or a glob; "" and "core" are the core group. Nil
	// admits all.
	Group *string
	// Resource is a plural name or a glob. "" admits all.
	Resource string
	// Namespaces are names or globs, any of which must match. None admits all,
	// cluster-scoped objects included; otherwise those are left out.
	Namespaces []string
	// Ops are the operations of object events to deliver. None admits all.
	Ops []event.Op
	// Control are the control events to deliver. Nil admits begin, synced and gap. Begin
	// passes only together with snapshot, added and synced: a consumer removes the objects
	// that are missing between begin and synced.
	Control []event.Op
	// Changed are change filters by their ids: a modified event passes unless Unchanged of
	// [event.Event] has all of them. None admits all.
	Changed []uint64
	// When decides about what all of these let through, but for deleted, left and the
	// control records, which pass it in any case. Nil admits all.
	When Condition
	// DropFailed says what becomes of an event for which When has no answer: the
	// match does not deliver it. Otherwise it does.
	DropFailed bool
}

// Condition decides about an event by what is in it.
type Condition interface {
	// Holds reports whether the event fulfils the condition. It may keep what it has
	// decoded in decoded, for the other conditions of the route; that is nil for each
	// event at first. It is called by several goroutines at a time, never with the same
	// decoded. An error means that the condition has no answer for this event, and holds
	// nothing of what is in the event.
	Holds(e *event.Event, decoded *any) (bool, error)
}

// Route decides what a sink gets. It is immutable and safe for concurrent use.
type Route struct {
	matches  []match
	snapshot bool
}

// match is a Match prepared for use.
type match struct {
	Match
	group string // a glob; "" admits all
	ops   map[event.Op]bool
}

// NewRoute makes the route of a sink. Any of the matches delivers an event, and
// no match at all delivers everything. Without snapshot (`start: now`) the
// objects that existed when informd first listed them are filtered out. Objects of a
// re-snapshot are not filtered out. The config has checked the matches.
func NewRoute(list []Match, snapshot bool) *Route {
	r := &Route{snapshot: snapshot}
	for _, m := range list {
		prepared := match{Match: m, ops: admittedOps(m)}
		if m.Group != nil {
			prepared.group = event.GroupOrCore(*m.Group)
		}
		r.matches = append(r.matches, prepared)
	}
	return r
}

// admittedOps returns the operations that a match admits.
func admittedOps(m Match) map[event.Op]bool {
	control := m.Control
	if control == nil {
		control = []event.Op{event.Begin, event.Synced, event.Gap}
	}
	admitted := map[event.Op]bool{}
	for _, op := range event.Ops() {
		if op.Control() {
			admitted[op] = slices.Contains(control, op)
		} else {
			admitted[op] = len(m.Ops) == 0 || slices.Contains(m.Ops, op)
		}
	}
	admitted[event.Begin] = admitted[event.Begin] && admitted[event.Snapshot] && admitted[event.Added] && admitted[event.Synced]
	return admitted
}

// Admits reports whether the sink gets the event. Control records have no
// namespace; they go to every sink that may get anything of the resource.
func (r *Route) Admits(e *event.Event) bool {
	return r.decide(e, false, func(int, string, error) {})
}

// decide is Admits, and calls answer with what [match.refuses] says of each match, up to the first that delivers
// the event. Of a detached event the sink may lack the one before, so that no change filter stops it.
func (r *Route) decide(e *event.Event, detached bool, answer func(match int, key string, err error)) bool {
	if !r.snapshot && (e.Op == event.Snapshot && !e.Reannounced() || e.Op == event.Begin && !e.Replay) {
		return false
	}
	if len(r.matches) == 0 {
		return e.Op != event.State
	}
	var decoded *any
	for i := range r.matches {
		key, err := r.matches[i].refuses(e, detached, &decoded)
		if answer(i, key, err); key == "" {
			return true
		}
	}
	return false
}

// refuses returns the key of the match that an event does not fit, "" if the match delivers it. An error is
// that of the condition, and then the answer is as the match has it for those. Decoded is nil for the first
// match; it is made for the first condition, because most routes have none.
func (m *match) refuses(e *event.Event, detached bool, decoded **any) (key string, err error) {
	switch key = m.fails(e); {
	case key != "":
		return key, nil
	case !detached && m.unchanged(e):
		return "changed", nil
	case m.When == nil || e.Op.Control() || e.Op.Ends():
		return "", nil
	}
	if *decoded == nil {
		*decoded = new(any)
	}
	holds, err := m.When.Holds(e, *decoded)
	if holds && err == nil || err != nil && !m.DropFailed {
		return "", err
	}
	return "condition", err
}

// fails returns the key of the first one that the event does not fit, the condition
// aside, empty if it fits all.
func (m *match) fails(e *event.Event) (key string) {
	trimmed := e.Op == event.Gap && e.Target == event.AllTargets // may have been about anything
	switch {
	case !m.ops[e.Op] && e.Op.Control():
		return "control"
	case !m.ops[e.Op]:
		return "ops"
	case trimmed:
		return ""
	case !admits(m.group, event.GroupOrCore(e.Group)):
		return "group"
	case !admits(m.Resource, e.Resource):
		return "resource"
	case len(m.Namespaces) == 0 || e.Op.Control():
		return ""
	case !slices.ContainsFunc(m.Namespaces, func(pattern string) bool { return e.Namespace != "" && admits(pattern, e.Namespace) }):
		return "namespaces"
	}
	return ""
}

// unchanged reports whether none of what the match asks about has changed since the
// object's event before.
func (m *match) unchanged(e *event.Event) bool {
	return len(m.Changed) > 0 && e.Op == event.Modified &&
		!slices.ContainsFunc(m.Changed, func(id uint64) bool { return !slices.Contains(e.Unchanged, id) })
}

// admits matches value with a glob; "" admits all.
func admits(glob, value string) bool {
	ok, err := path.Match(glob, value)
	return glob == "" || glob == value || ok && err == nil
}
