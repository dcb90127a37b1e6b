// Package checkpoint has the checkpoints of targets: their form in the log, the time of the next
// one, and what a restart reads from the log. Its caller is the loop of a target, which decides
// where it continues.
package checkpoint

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// Mark is a target's note in the log of how far it has come. Its fields are a form that is in
// logs already.
type Mark struct {
	// RV is the revision to watch from: everything up to it was appended.
	RV uint64 `json:"rv"`
	// Synced: the first list is complete. Began is a revision from before it if
	// it is not, 0 if it has not begun, and Run that of its events.
	Synced bool   `json:"synced"`
	Began  uint64 `json:"began,omitempty"`
	Run    uint64 `json:"run,omitempty"`
	// Objects is how many objects were known. The log holds the last event of each
	// of them for ever, be it its end: fewer are a sign that it was emptied. 0 if ends
	// since the mark may not be recognised as such.
	Objects int `json:"objects,omitempty"`
	// FirstOp is what the objects of the first list are.
	FirstOp event.Op `json:"firstOp,omitempty"`
	// Epoch counts rollbacks of the API server's storage.
	Epoch uint64 `json:"epoch,omitempty"`
	// Selection is what the objects were selected by.
	Selection string `json:"selection,omitempty"`
	// Mark is that of the namespaces that are covered by label.
	selection.Mark
	// Custom: it is a custom resource.
	Custom bool `json:"custom,omitempty"`
	// Lost is why history from RV on is being recovered by a list, if it is:
	// the index is ahead of RV then, in a way that no watch may be trusted with.
	// Torn: revisions are missing between the two.
	Lost string `json:"lost,omitempty"`
	Torn bool   `json:"torn,omitempty"`
	// Proven is up to where lists and frames have proven the stream, 0 if that is RV.
	Proven uint64 `json:"proven,omitempty"`
	// BoundsMissing: the log has no begin and synced event of this target, because another
	// target announced its objects.
	BoundsMissing bool `json:"boundsMissing,omitempty"`
	// HeldBack: change filters have held back states, so that objects may be newer than their last event.
	HeldBack bool `json:"heldBack,omitempty"`
}

// Every is the least time between two marks of a target. Events that were appended
// since the last one are seen again after a crash, and known by the index.
const Every = time.Second

// Timer says when a mark is due.
type Timer struct {
	// C has a value when it is.
	C     <-chan time.Time
	timer *time.Timer
	due   bool
	last  time.Time
}

// NewTimer makes a timer that does not run.
func NewTimer() Timer {
	t := time.NewTimer(Every)
	t.Stop()
	return Timer{C: t.C, timer: t}
}

// Stop stops the timer: a mark is written now, or none is needed.
func (t *Timer) Stop() {
	t.timer.Stop()
	t.due = false
}

// Kept says that a mark was written.
func (t *Timer) Kept() { t.last = time.Now() }

// Soon has a mark be due, but not too often. A target without a mark for a while writes it
// together with the others. One that writes marks all the time has a separate time, as hundreds
// of busy ones would wait for each other's marks.
func (t *Timer) Soon() {
	if t.due {
		return
	}
	t.due = true
	wait := Every
	if time.Since(t.last) > 2*Every {
		wait = kube.UntilNext(Every)
	}
	t.timer.Reset(wait)
}
