package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/informd/informd/internal/config/internal/document"
	"github.com/informd/informd/pkg/event"
)

// Control lists the control events that a match selects. In the file it may be true or
// false as well.
type Control []string

// defaultControl is what control: true means.
func defaultControl() Control {
	return Control{string(event.Begin), string(event.Synced), string(event.Gap)}
}

// control decodes true or false.
func (r *reading) control(n *document.Node, path string, dst reflect.Value) {
	switch {
	case n.Kind != document.Boolean:
		r.Add(n.At, path, "must be true, false or a list of %s, not %s", strings.Join(namesOf(event.Op.Control), ", "), n.Kind)
	case n.Text == "true":
		dst.Set(reflect.ValueOf(defaultControl()))
	default:
		dst.Set(reflect.ValueOf(Control{}))
	}
}

// objectOp reports whether an operation is that of an object event.
func objectOp(op event.Op) bool { return !op.Control() }

// namesOf lists the operations of a kind.
func namesOf(kind func(event.Op) bool) []string {
	var names []string
	for _, op := range event.Ops() {
		if kind(op) {
			names = append(names, string(op))
		}
	}
	return names
}

// checkOps checks the operations of object events.
func (r *checker) checkOps(ops []string, path string) {
	for i, op := range ops {
		at := document.Index(path, i)
		name := strings.TrimPrefix(op, "!")
		switch {
		case r.Bad(at):
		case slices.Contains(namesOf(event.Op.Control), name):
			r.fail(at, "%s is a control event: use control, which is true, false or a list, as in control: [begin, synced, gap]", document.Quote(op))
		case name != op:
			r.fail(at, "%s: ops has no !: list each operation that the sink gets", document.Quote(op))
		case !slices.Contains(namesOf(objectOp), op):
			r.fail(at, "unknown operation %s %s", document.Quote(op), didYouMean(op, namesOf(objectOp)))
		case slices.Contains(ops[:i], op):
			r.fail(at, "%q is in the list twice", op)
		}
	}
}

// checkControl checks the control events of a match. It refuses a begin that never matches.
func (r *checker) checkControl(m Match, path string) {
	at := path + ".control"
	for i, op := range m.Control {
		if item := document.Index(at, i); !r.Bad(item) && slices.Contains(m.Control[:i], op) {
			r.fail(item, "%q is in the list twice", op)
		}
	}
	if len(m.Control) > 0 && !slices.Contains(m.Control, string(event.Gap)) && !r.Bad(at) {
		r.Warn(r.place(at), at, "the sink does not learn of lost history: add %s to control, or use control: false for a consumer that needs no history", event.Gap)
	}
	i := slices.Index(m.Control, string(event.Begin))
	if i < 0 || r.Bad(path+".ops") || !r.given(document.Index(at, i)) {
		return
	}
	whole := slices.Contains(m.Control, string(event.Synced)) && m.admits(event.Snapshot) && m.admits(event.Added)
	if item := document.Index(at, i); !whole && !r.Bad(item) {
		r.fail(item, "%q has no effect without synced in control, and snapshot and added in ops: add them, or remove it", event.Begin)
	}
}

// admits reports whether the match selects object events of an operation.
func (m Match) admits(op event.Op) bool { return len(m.Ops) == 0 || slices.Contains(m.Ops, string(op)) }

// checkDeletions warns about a match with ops whose resources the sink gets without
// deletions: a consumer that keeps state would keep deleted objects. Without snapshot, it
// would lack objects, and a re-snapshot would not repair it. A sink of deletions alone keeps
// no state.
func (r *checker) checkDeletions(s Sink, at string, resources []Resource) {
	if !r.named(resources) || r.Bad(at+".match") {
		return
	}
	for i, m := range s.Match {
		path := document.Index(at+".match", i)
		if len(m.Ops) == 0 {
			continue
		}
		if missing := s.missingOps(m, resources); len(missing) > 0 {
			without := ""
			if missing[0] == string(event.Snapshot) {
				without = "; without snapshot, first lists and informd resnapshot send it nothing"
			}
			last := len(missing) - 1
			names := strings.Join(missing[:last], ", ") + " and " + missing[last]
			r.Warn(r.place(path+".ops"), path+".ops", "the sink gets no %s events of these objects: add %s to ops if its consumer keeps state%s",
				strings.TrimPrefix(names, " and "), strings.Join(missing, ", "), without)
		}
	}
}

// missingOps returns the operations without which a consumer's state of a match's objects
// is wrong, and which no match of the sink selects.
func (s Sink) missingOps(m Match, resources []Resource) []string {
	var missing []string
	for _, op := range []event.Op{event.Snapshot, event.Deleted, event.Left} {
		produced := slices.ContainsFunc(resources, func(one Resource) bool {
			return one.mayBe(m.Group, m.Resource) && (op != event.Left || one.selects())
		})
		if op == event.Snapshot {
			produced = produced && (m.admits(event.Added) || m.admits(event.Modified))
		}
		covered := slices.ContainsFunc(s.Match, func(other Match) bool { return other.admits(op) && other.covers(m) })
		if produced && !covered {
			missing = append(missing, string(op))
		}
	}
	return missing
}

// covers reports whether a match selects every object that another one does.
func (m Match) covers(other Match) bool {
	group := m.Group == nil || other.Group != nil && *m.Group == *other.Group
	return group && (m.Resource == "" || m.Resource == other.Resource) && (len(m.Namespaces) == 0 || slices.Equal(m.Namespaces, other.Namespaces))
}

// selects reports whether objects can leave the selection of an entry while they exist.
func (r Resource) selects() bool {
	return r.LabelSelector != "" || r.FieldSelector != "" || r.NamespaceSelector != ""
}
