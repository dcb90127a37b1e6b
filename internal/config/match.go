package config

import (
	"slices"

	"github.com/informd/informd/pkg/event"
)

// Control lists the control events that a match selects. In the file it may be true or
// false as well.
type Control []string

// Toggle implements [sink.Toggle].
func (c *Control) Toggle(on bool) {
	if *c = (Control{}); on {
		*c = DefaultControl()
	}
}

// DefaultControl is what control: true means.
func DefaultControl() Control {
	return Control{string(event.Begin), string(event.Synced), string(event.Gap)}
}

// ObjectOp reports whether an operation is that of an object event.
func ObjectOp(op event.Op) bool { return !op.Control() }

// NamesOf lists the operations of a kind.
func NamesOf(kind func(event.Op) bool) []string {
	var names []string
	for _, op := range event.Ops() {
		if kind(op) {
			names = append(names, string(op))
		}
	}
	return names
}

// Admits reports whether the match selects object events of an operation.
func (m Match) Admits(op event.Op) bool { return len(m.Ops) == 0 || slices.Contains(m.Ops, string(op)) }

// Selects reports whether objects can leave the selection of an entry while they exist.
func (r Resource) Selects() bool {
	return r.LabelSelector != "" || r.FieldSelector != "" || r.NamespaceSelector != ""
}

// Asked are the change filters of all sinks that may be about the entry's objects.
func (r Resource) Asked(sinks []Sink) (filters []string) {
	for _, s := range sinks {
		for _, m := range s.Match {
			if r.MayBe(m.Group, m.Resource) {
				filters = append(filters, m.Changed...)
			}
		}
	}
	return Unique(filters)
}
