package feed

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/checkpoint"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// lastMarkTimeout bounds the save of the checkpoint at the end.
const lastMarkTimeout = time.Second

// MarkNow saves the checkpoint of now, unless it has not moved. It keeps the old one while
// history is being recovered, while a deletion is undecided, and while the log lacks events
// of the index: a process that resumes there reads all of it again.
func (t *Feed) MarkNow(ctx context.Context) error {
	t.Marks.Stop()
	now := t.Checkpoint()
	if t.Lost != nil || len(t.Undecided) > 0 || t.Pending() || now == t.Marked || !t.Restored {
		return nil
	}
	return t.KeepMark(ctx, now)
}

// MarkLost notes in the checkpoint that history is being recovered, before the first event of
// it. Otherwise the events of a process that dies meanwhile would look complete. The checkpoint
// counts the objects of the index, so their events are appended first.
func (t *Feed) MarkLost(ctx context.Context) error {
	if err := t.Flush(ctx); err != nil {
		return err
	}
	l, now := t.Lost, t.Checkpoint()
	// That the log has lost events is said until all objects are announced again.
	now.RV, now.Lost, now.Torn = l.From, cmp.Or(now.Lost, l.Reason), l.Torn
	if l.Reason == recovery.ReasonRollback || l.Reason == recovery.ReasonSelection {
		now.Objects = 0 // the revisions of deletions in the new history can be below now.RV; the log forgets what is excluded
	}
	if now == t.Marked {
		return nil
	}
	return t.KeepMark(ctx, now)
}

// uncount has the checkpoint count no objects before one ends at a revision that the checkpoint
// covers: servers without etcd send such deletions. A restart counts later ones only, and would
// miss the object.
func (t *Feed) uncount(ctx context.Context, rv uint64) error {
	if t.Marked.Objects == 0 || rv > t.Marked.RV || t.Epoch > t.Marked.Epoch {
		return nil
	}
	m := t.Marked
	m.Objects = 0
	return t.KeepMark(ctx, m)
}

// KeepMark saves a checkpoint.
func (t *Feed) KeepMark(ctx context.Context, now checkpoint.Mark) error {
	text, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	if err := t.Log.Mark(ctx, t.Name, text); err != nil {
		return fmt.Errorf("%w: save checkpoint: %w", emit.ErrLog, err)
	}
	t.Marked = now
	t.Marks.Kept()
	return nil
}

// MarkLast is markNow at the end of the loop, whose context is over.
func (t *Feed) MarkLast() {
	ctx, cancel := context.WithTimeout(context.Background(), lastMarkTimeout)
	defer cancel()
	if err := t.MarkNow(ctx); err != nil {
		t.Logger.Warn("checkpoint not saved; recent history is read again", "err", err)
	}
}

// Distrust has the target compare the index with a list before it watches.
func (t *Feed) Distrust(reason string) {
	t.Logger.Info("reconciling the journal from a list", "reason", reason)
	t.FirstOp = event.Added
	t.Status.Synced.Store(true)
	t.Lost = &recovery.Lost{Phase: recovery.Reconciling, From: t.Cursor, Reason: reason}
}
