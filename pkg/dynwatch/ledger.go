package dynwatch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/checkpoint"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// selection tells two specs apart that select other objects.
func (s spec) selection() string {
	text := s.labelSelector + "\n" + s.fieldSelector
	switch {
	case s.namespaces != (selection.Rule{}):
		return text + "\n" + s.namespaces.Names + "\n" + s.namespaces.Excluded + "\n" + s.namespaces.Selector
	case s.selects():
		return text
	default:
		return ""
	}
}

// markOfNow is the checkpoint of now.
func (t *target) markOfNow() checkpoint.Mark {
	m := checkpoint.Mark{
		RV: t.resume(), Synced: t.status.synced.Load(), Began: t.first.began, Run: t.first.run, Objects: t.index.Len(),
		FirstOp: t.firstOp, Epoch: t.Epoch, Selection: t.spec.selection(), Dropped: t.dropped.marked(t.marked.Dropped),
		Resynced: t.resnapshots.schedule.Position(), Custom: t.nudge.Custom.Load(),
		Proven: t.proven,
	}
	if m.Mark = t.marked.Mark; t.coverage.Known {
		m.Mark = t.coverage.Mark()
	}
	if t.resnapshots.relogging() || t.first.lost {
		m.Lost = recovery.ReasonJournal
	}
	if m.Turning != "" {
		m.Objects = 0 // many may leave at once, in states from before the mark
	}
	return m
}

// markNow notes how far the target has come, unless it has not moved. While
// history is being made up for, while the end of an object is undecided, and while
// the index has events that the log has not taken, the mark stays where it was:
// whoever resumes there comes by all of it again.
func (t *feed) markNow(ctx context.Context) error {
	t.marks.Stop()
	now := t.checkpoint()
	if t.lost != nil || len(t.undecided) > 0 || t.Pending() || now == t.marked || !t.restored {
		return nil
	}
	return t.keepMark(ctx, now)
}

// markLost notes that history is being made up for, before the first event of it:
// a process that dies over it must not leave events behind that look as if they
// were all there was.
func (t *feed) markLost(ctx context.Context) error {
	l, now := t.lost, t.checkpoint()
	// That the log has lost events is said until all objects are announced again.
	now.RV, now.Lost, now.Torn = l.From, cmp.Or(now.Lost, l.Reason), l.Torn
	if now == t.marked {
		return nil
	}
	return t.keepMark(ctx, now)
}

func (t *feed) keepMark(ctx context.Context, now checkpoint.Mark) error {
	text, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	if err := t.options.Log.Mark(ctx, t.name, text); err != nil {
		return fmt.Errorf("%w: save checkpoint: %w", emit.ErrLog, err)
	}
	t.marked = now
	t.marks.Kept()
	return nil
}

// markLast is markNow at the end of the loop, whose context is over.
func (t *feed) markLast() {
	ctx, cancel := context.WithTimeout(context.Background(), checkpoint.Every)
	defer cancel()
	if err := t.markNow(ctx); err != nil {
		t.logger.Warn("checkpoint not saved; recent history is read again", "err", err)
	}
}

// restore makes the index what the log says was announced, and the cursor what
// was marked.
func (t *target) restore(ctx context.Context) error {
	r, unreadable, err := checkpoint.Read(ctx, t.name, t.index, t.options.Log.Restore)
	t.Epoch = max(t.Epoch, r.Epoch)
	if r.Resource.Resource != "" {
		t.Resolved = catalog.Resolved{GVR: r.Resource, Kind: r.Kind}
	}
	if err != nil {
		return err
	}
	told := t.Record(event.State)
	last, _, err := t.options.Log.Last(ctx, &told)
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	state, _ := last.TargetState()
	t.stateTold = State(state)
	t.restored = true
	t.status.objects.Store(uint64(t.index.Len()))
	if unreadable != nil {
		t.logger.Error("checkpoint unreadable; reconciling from a list", "checkpoint", r.Text, "err", unreadable)
	}
	m := r.Mark
	t.resnapshots.schedule.GoOn(m.Resynced)
	t.Epoch = max(t.Epoch, m.Epoch)
	t.status.epoch.Store(t.Epoch)
	if !r.Marked && t.index.Len() == 0 {
		t.first.lost = r.Lost
		return nil // nothing is known: the first list
	}
	t.startFrom(m, r.Marked, r.Others && !r.Lost, r.Ends)
	return nil
}

// startFrom decides what a target that knows objects begins with. Marked says that there is
// a mark, others that the objects are of other targets.
func (t *target) startFrom(m checkpoint.Mark, marked, others bool, ends checkpoint.Ends) {
	switch {
	case !marked && others: // what was watched namespace by namespace, or the other way around
		t.distrust(recovery.ReasonSelection)
	case !marked, m.Lost == recovery.ReasonJournal, m.Synced && t.index.Len()+ends.Since(&m) < m.Objects:
		t.logger.Warn("journal lost events; re-snapshotting all objects", "reason", recovery.ReasonJournal)
		t.first.lost = true
		t.setCursor(max(ends.Newest(t.Epoch), t.index.NewestOf(t.Epoch))) // a list from before that is of another history
	case !m.Synced:
		t.firstOp, t.first.began, t.first.run = m.FirstOp, m.Began, m.Run
		t.marked = m
		t.rememberEnded(ends)
	default:
		t.resumeAt(m, ends)
	}
}

// resumeAt goes on where the mark says. Ends behind it are remembered, so that
// the watch, which brings them again, repeats nothing.
func (t *target) resumeAt(m checkpoint.Mark, ends checkpoint.Ends) {
	t.firstOp, t.marked, t.unwatched = m.FirstOp, m, true
	if m.Custom {
		t.nudge.Custom.Store(true)
	}
	if m.Selection == t.spec.selection() && t.coverage.Filter != nil {
		// What fell out when the config was edited has no end in the log.
		for e := range t.index.All() {
			if !t.coverage.Filter.Named(t.index.Namespace(e)) {
				t.index.Remove(e)
			}
		}
	}
	t.status.objects.Store(uint64(t.index.Len()))
	t.setCursor(m.RV)
	t.proven = m.Proven
	t.clean, t.audits.began = m.RV, m.RV
	for name, e := range ends {
		if e.After(&m) {
			t.ended[name] = e.RV
		}
	}
	t.status.synced.Store(true)
	switch {
	case m.Selection != t.spec.selection():
		t.distrust(recovery.ReasonSelection)
	case m.Lost != "":
		t.logger.Info("recovery of lost history continues", "reason", m.Lost, "from", m.RV)
		t.lost = lostThen(&m, ends)
	}
	t.dropped.unsifted = m.Dropped > 0 && (t.lost == nil || t.lost.Reason != recovery.ReasonSelection)
}

// lostThen is the stretch of history that was being made up for at the mark, with the
// deletions that were announced since.
func lostThen(m *checkpoint.Mark, ends checkpoint.Ends) *recovery.Lost {
	l := &recovery.Lost{Phase: recovery.Reconciling, From: m.RV, Reason: m.Lost, Torn: m.Torn}
	for _, e := range ends {
		if e.Deleted != "" && e.After(m) {
			l.NoteDeleted(e.Deleted, e.RV)
		}
	}
	return l
}

// distrust has the target compare the index with a list before it watches.
func (t *feed) distrust(reason string) {
	t.logger.Info("reconciling the journal from a list", "reason", reason)
	t.firstOp = event.Added
	t.status.synced.Store(true)
	t.lost = &recovery.Lost{Phase: recovery.Reconciling, From: t.cursor, Reason: reason}
}
