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
// it. Otherwise the events of a process that dies meanwhile would look complete.
func (t *Feed) MarkLost(ctx context.Context) error {
	l, now := t.Lost, t.Checkpoint()
	// That the log has lost events is said until all objects are announced again.
	now.RV, now.Lost, now.Torn = l.From, cmp.Or(now.Lost, l.Reason), l.Torn
	if now == t.Marked {
		return nil
	}
	return t.KeepMark(ctx, now)
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
