package event

import (
	"fmt"
	"strings"

	"github.com/informd/informd/internal/form"
)

// ParseID returns the run and the epoch of an id, and the part before them. It is for
// messages whose id alone is known: an [Event] has both as fields.
func ParseID(id string) (what string, run, epoch uint64) { return form.ParseID(id) }

// SetRun makes the event part of a run: it sets Run, and replaces the run in the ID.
func (e *Event) SetRun(run uint64) {
	e.Run, e.ID = run, form.IDInRun(e.ID, run, e.Epoch)
}

// SetBound makes a control event, whose Target and Epoch are set, the beginning ([Begin])
// or the end ([Synced]) of the snapshot with this run, at revision rv. Its id is
// "<target>:<resourceVersion>:begin" or ":synced", followed by the run.
func (e *Event) SetBound(op Op, run, rv uint64) {
	e.Op, e.ResourceVersion = op, rv
	e.ID = fmt.Sprintf("%s:%d:%s", e.Target, rv, op)
	e.SetRun(run)
}

// AllTargets is the Target of a [Gap] that concerns a sink, not a target: see [Event.GapSink].
const AllTargets = "*"

// GapSink is the name of the sink that a gap event is for, as its id has it. It is empty for a gap of
// a target, which concerns all sinks.
func (e *Event) GapSink() string {
	if e.Op != Gap || e.Target != AllTargets {
		return ""
	}
	sink, _, _ := strings.Cut(e.ID, ":")
	return sink
}
