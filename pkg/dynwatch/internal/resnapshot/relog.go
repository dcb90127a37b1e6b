package resnapshot

import (
	"context"
	"errors"

	"github.com/informd/informd/pkg/dynwatch/internal/checkpoint"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// The log can lose its events while the targets run: somebody deletes the stream of a
// journal in NATS. The log is then replaced below the targets, and their calls continue in
// the new one. The index in memory still says what was announced. So each target
// declares a gap, continues its ordinals, and announces all of its objects again: then
// the new log has the last state of each, and a later process finds the deletions. A
// process that begins with a log which has lost events does not know what was announced: it
// takes its first list again, see firstList.lost.

// Notice says that the log was replaced.
type Notice struct {
	run uint64
	// lost: the log has lost its events, not only the marks.
	lost bool
}

// LogReplaced is the notice that the log was replaced. One goroutine at a time may call it.
func (t *Repeater) LogReplaced(run uint64, lost bool) {
	notice := Notice{run: run, lost: lost}
	select {
	case earlier := <-t.relogs: // not seen yet
		notice.lost = notice.lost || earlier.lost
	default:
	}
	t.relogs <- notice
}

// LostFirst takes the notice during the first list, and reports whether that has to be
// read again: the log lacks its beginning, and a new reader must not take
// the rest for all objects that exist. The end of the list writes the checkpoint in any case.
func (t *Repeater) LostFirst() bool {
	select {
	case notice := <-t.relogs:
		return notice.lost
	default:
		return false
	}
}

// Replaced is where the notice that the log was replaced comes from; never, while the index is not whole.
func (t *Repeater) Replaced() <-chan Notice {
	if !t.Whole() {
		return nil
	}
	return t.relogs
}

// TakeReplaced takes the notice.
func (t *Repeater) TakeReplaced(ctx context.Context, notice Notice) error {
	t.Marked = checkpoint.Mark{}
	t.Marks.Soon()
	if !notice.lost {
		return nil
	}
	gap := event.GapInfo{From: t.relost, To: t.Cursor, Reason: recovery.ReasonJournal, Recovered: event.RecoveredState}
	t.relost, t.BoundsMissing = t.Cursor, 0
	t.Logger.Warn("journal lost events; re-snapshotting all objects", "reason", recovery.ReasonJournal, "to", gap.To, "recovered", gap.Recovered)
	if err := errors.Join(t.EmitGap(ctx, gap), t.Flush(ctx)); err != nil {
		return err
	}
	if t.resnapshot != nil {
		t.answerResnapshot(errRelogged)
	}
	err := t.insist(ctx, notice.run)
	return errors.Join(err, t.MarkNow(ctx))
}

// insist begins a re-snapshot that failures do not end. The log says how it went.
func (t *Repeater) insist(ctx context.Context, run uint64) error {
	return t.Begin(ctx, Request{Run: run, insist: true, Reply: make(chan Result, 1)})
}

// errRelogged ends a snapshot on request.
var errRelogged = errors.New("the journal lost its events; another re-snapshot replaces this one")

// Insists reports whether the log may lack objects of the index.
func (t *Repeater) Insists() bool {
	return t.resnapshot != nil && t.resnapshot.insist && t.BoundsMissing == 0
}
