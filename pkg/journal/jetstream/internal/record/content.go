package record

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// Place ties a record to the log it was written about: a log that has another age,
// or ends before, is not the one any more.
type Place struct {
	Last    uint64    `json:"last"`    // a sequence that the log had
	Created time.Time `json:"created"` // when the stream was created
}

// Holds reports whether the log still has what the record counts on.
func (p Place) Holds(now Place) bool {
	return p.Created.Equal(now.Created) && p.Last <= now.Last
}

// Target is the record of a target.
type Target struct {
	Place
	// Lost: an earlier mark counted on events that the log has lost.
	Lost bool `json:"lost,omitempty"`
	// LostUpTo is the sequence up to which the log has lost events of the target. A snapshot
	// of the target that ended before it may lack objects.
	LostUpTo uint64 `json:"lostUpTo,omitempty"`
	Mark     []byte `json:"mark,omitempty"`
	// Void is that mark. It is not in Mark, as earlier versions trust that.
	Void []byte `json:"void,omitempty"`
}

// In returns the record as it must be in the log of now. If that has lost what the record counts
// on, or is distrusted, the mark is void.
func (t *Target) In(now Place, distrust bool) Target {
	next := *t
	switch {
	case t.Lost && !t.Created.Equal(now.Created): // in a stream that is gone
		next.Created, next.LostUpTo = now.Created, 0
	case t.Lost:
		next.LostUpTo = min(t.LostUpTo, now.Last)
	case distrust, !t.Holds(now):
		next = Target{Place: Place{Created: now.Created}, Lost: true, LostUpTo: now.Last, Void: t.Mark}
	}
	return next
}

// Equal reports whether the record says the same as another one that [Target.In] has made of it.
func (t *Target) Equal(o *Target) bool {
	return t.Lost == o.Lost && t.LostUpTo == o.LostUpTo && t.Created.Equal(o.Created)
}

// Decode reads a record.
func Decode(m scan.Message, record any) error {
	if err := json.Unmarshal(m.Data, record); err != nil {
		return server.Final(fmt.Errorf("record %s is damaged: %w", m.Subject, err))
	}
	return nil
}

// Sink is the record of a sink.
type Sink struct {
	// Place.Last is the committed sequence.
	Place
	// Snapshot says that the sink has not yet got all of its snapshot, and Since
	// where the log ended when the first attempt at it began.
	Snapshot bool   `json:"snapshot,omitempty"`
	Since    uint64 `json:"since,omitempty"`
	// Jumped is the first sequence that was gone before the sink came to it, as
	// long as a copy of an end from there on may follow; 0: none was.
	Jumped uint64 `json:"jumped,omitempty"`
	// Returned names deletions from Jumped on that the sink has: it needs no copy of them.
	Returned string `json:"returned,omitempty"`
	// Detached is up to where the sink may lack events that came before: see
	// [journal.Entry].
	Detached uint64 `json:"detached,omitempty"`
	// Run is that of the last rewind; events up to Until belong to it.
	Run   uint64 `json:"run,omitempty"`
	Until uint64 `json:"until,omitempty"`
	// Left is when the sink was last open; zero while it is, and after a crash.
	Left time.Time `json:"left,omitzero"`
	// Note is the reader's own.
	Note string `json:"note,omitempty"`
}

// Passed is the sequence up to which the sink needs no events. Before the end of its first
// snapshot that is where the log ended when the snapshot began: what is older comes as states.
func (s *Sink) Passed() uint64 {
	if s.Snapshot {
		return max(s.Last, s.Since)
	}
	return s.Last
}

// In returns the record of a sink that is not open, as it must be in the log of now. If that has
// lost what the record counts on, the sink gets a snapshot. No sequence in the record is above the
// end of the log: new events get those above it, and are others.
func (s *Sink) In(now Place) Sink {
	next := *s
	next.Until, next.Detached, next.Since = min(s.Until, now.Last), min(s.Detached, now.Last), min(s.Since, now.Last)
	if !s.Holds(now) {
		next = Sink{Place: Place{Created: now.Created}, Snapshot: true, Since: now.Last, Run: s.Run, Left: s.Left, Note: s.Note}
	}
	if next.Left.IsZero() {
		next.Left = Now()
	}
	return next
}

// Janitor is the record of the janitor: below every deletion up to Last, no event is
// left to purge.
type Janitor struct{ Place }

// Cluster is the record of the cluster.
type Cluster struct {
	UID string `json:"uid"`
}

// Now is a time as a record has it.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
