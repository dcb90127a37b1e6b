package target

import (
	"context"
	"fmt"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/checkpoint"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
)

// markOfNow is the checkpoint of now.
func (t *Target) markOfNow() checkpoint.Mark {
	m := checkpoint.Mark{
		RV: t.Resume(), Synced: t.Status.Synced.Load(), Began: t.First.Began, Run: t.First.Run, Objects: t.Index.Len(),
		FirstOp: t.FirstOp, Epoch: t.Epoch, Selection: t.Spec.Selection(),
		Custom: t.Resolver.Notice.Custom.Load(),
		Proven: t.Proven, BoundsMissing: t.boundsMissing != 0, HeldBack: t.HeldBack,
	}
	if m.Mark = t.Marked.Mark; t.Coverage.Known {
		m.Mark = t.Coverage.Mark()
	}
	if t.First.Lost {
		m.Lost = recovery.ReasonJournal
	}
	if t.Spec.Namespaces.Selector != "" && m.Hash == 0 {
		m.Objects = 0 // many may leave at once, in states from before the mark
	}
	return m
}

// restore makes the index what the log says was announced, and the cursor what
// was marked.
func (t *Target) restore(ctx context.Context) error {
	r, unreadable, err := checkpoint.Read(ctx, t.Name, t.Index, t.Log.Restore)
	t.Epoch = max(t.Epoch, r.Epoch)
	if r.Resource.Resource != "" {
		t.Resolved = catalog.Resolved{GVR: r.Resource, Kind: r.Kind}
	}
	if err != nil {
		return err
	}
	told := t.Record(event.State)
	last, _, err := t.Log.Last(ctx, &told)
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	state, _ := last.TargetState()
	t.stateTold = status.State(state)
	t.Restored = true
	t.Status.Objects.Store(uint64(t.Index.Len()))
	if unreadable != nil {
		t.Logger.Error("checkpoint unreadable; reconciling from a list", "checkpoint", r.Text, "err", unreadable,
			"runbook", display.GapRunbook(recovery.ReasonJournal))
	}
	m := r.Mark
	t.Epoch = max(t.Epoch, m.Epoch)
	t.Status.Epoch.Store(t.Epoch)
	if !r.Marked && t.Index.Len() == 0 {
		t.First.Lost = r.Lost
		t.SetCursor(m.RV)
		return nil // nothing is known: the first list
	}
	t.startFrom(&r)
	return nil
}

// startFrom decides what a target that knows objects begins with.
func (t *Target) startFrom(r *checkpoint.Restored) {
	m, ends := r.Mark, r.Ends
	t.Departed, t.HeldBack = ends.Left(), m.HeldBack
	switch {
	case !r.Marked && r.Others && !r.Lost: // what was watched namespace by namespace, or the other way around
		t.boundsMissing = t.runs.Next()
		t.Distrust(recovery.ReasonSelection)
	case !r.Marked, m.Lost == recovery.ReasonJournal, m.Synced && t.Index.Len()+ends.Since(&m) < m.Objects:
		t.Logger.Warn("journal lost events; re-snapshotting all objects", "reason", recovery.ReasonJournal,
			"runbook", display.GapRunbook(recovery.ReasonJournal))
		t.First.Lost = true
		// An answer from before the cursor is of another history. The newest event of the
		// log counts even if the mark knows a newer epoch, of which the log has lost all
		// events. The rollback is then found again, with an epoch that was not used.
		t.SetCursor(max(ends.Newest(r.Epoch), t.Index.NewestOf(r.Epoch), m.RV))
	case !m.Synced:
		t.FirstOp, t.First.Began, t.First.Run = m.FirstOp, m.Began, m.Run
		t.Marked = m
		t.RememberEnded(ends)
	default:
		t.resumeAt(m, ends)
	}
}

// resumeAt continues at the checkpoint. Ends behind it are remembered, so that
// the watch, which brings them again, repeats nothing.
func (t *Target) resumeAt(m checkpoint.Mark, ends checkpoint.Ends) {
	t.FirstOp, t.Marked = m.FirstOp, m
	t.Resolver.Unwatched.Fail()
	if m.BoundsMissing {
		t.boundsMissing = t.runs.Next()
	}
	if m.Custom {
		t.Resolver.Notice.Custom.Store(true)
	}
	t.SetCursor(m.RV)
	t.Proven = m.Proven
	t.Clean, t.Audits.Began = m.RV, m.RV
	for name, e := range ends {
		if e.After(&m) {
			t.Ended[name] = e.RV
		}
	}
	t.Status.Synced.Store(true)
	switch {
	case m.Epoch < t.Epoch: // found by another target that had the objects since
		clear(t.Ended) // revisions of another history
		t.Distrust(recovery.ReasonRollback)
	case m.Selection != t.Spec.Selection():
		t.Distrust(recovery.ReasonSelection)
	case m.Lost != "":
		t.Logger.Info("recovery of lost history continues", "reason", m.Lost, "from", m.RV)
		t.Lost = lostThen(&m, ends)
	}
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
