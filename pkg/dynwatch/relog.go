package dynwatch

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

// relog is the notice that the log was replaced.
type relog struct {
	run uint64
	// lost: the log has lost its events, not only the marks.
	lost bool
}

// LogReplaced makes every running target write its checkpoint again. If the log has lost its
// events, every target also declares a gap and announces all of its objects again once it is
// live. LogReplaced does not wait for that.
func (m *Manager) LogReplaced(lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	targets := make([]*running, 0, len(m.running))
	for _, r := range m.running {
		targets = append(targets, r)
	}
	notice := relog{run: m.newRun(targets), lost: lost}
	for _, r := range targets {
		select {
		case earlier := <-r.target.resnapshots.relogs: // not seen yet
			notice.lost = notice.lost || earlier.lost
		default:
		}
		r.target.resnapshots.relogs <- notice // only this method sends, and it holds mu
		notice.lost = lost
	}
}

// relogged is where the notice comes from; never, while the index is not whole.
func (t *resnapshotter) relogged() <-chan relog {
	if !t.whole() {
		return nil
	}
	return t.relogs
}

// relog takes the notice.
func (t *resnapshotter) relog(ctx context.Context, notice relog) error {
	t.marked = checkpoint.Mark{}
	t.marks.Soon()
	if !notice.lost {
		return nil
	}
	gap := event.GapInfo{From: t.relost, To: t.cursor, Reason: recovery.ReasonJournal, Recovered: event.RecoveredState}
	t.relost = t.cursor
	t.logger.Warn("journal lost events; re-snapshotting all objects", "reason", recovery.ReasonJournal, "to", gap.To, "recovered", gap.Recovered)
	if err := errors.Join(t.EmitGap(ctx, gap), t.Flush(ctx)); err != nil {
		return err
	}
	if t.resnapshot != nil {
		t.answerResnapshot(errRelogged)
	}
	reply := make(chan ResnapshotResult, 1) // without a reader: the log says how it went
	err := t.beginResnapshot(ctx, resnapshotRequest{run: notice.run, insist: true, reply: reply})
	return errors.Join(err, t.markNow(ctx))
}

// relogFirst takes the notice during the first list, and reports whether that has to be
// taken again: the log lacks its beginning, and a reader that was not there yet must not take
// the rest for all that exists. The mark is written at the end of the list in any case.
func (t *target) relogFirst() (again bool) {
	select {
	case notice := <-t.resnapshots.relogs:
		if notice.lost {
			t.logger.Warn("journal lost the first list; reading it again", "reason", recovery.ReasonJournal)
			t.list, t.first = firstList{}, firstRun{lost: true}
		}
		return notice.lost
	default:
		return false
	}
}

// errRelogged ends a snapshot on request.
var errRelogged = errors.New("the journal lost its events; another re-snapshot replaces this one")

// relogging reports whether the log may lack objects of the index.
func (t *resnapshotter) relogging() bool {
	return t.resnapshot != nil && t.resnapshot.insist
}
