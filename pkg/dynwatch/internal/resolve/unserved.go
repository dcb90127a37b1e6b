package resolve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/feed"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// endUnserved follows a resource that discovery does not list. When the authorities have
// agreed for long enough that it was removed, its objects were removed with it. If a watch
// was open until then, the watch has brought their deletions. If none was, the known
// objects get them here, and a gap says that there can have been others. When the resource
// returns, it is a new one. endUnserved returns the denial, with what follows from it.
func (t *Resolver) endUnserved(ctx context.Context, denial error) error {
	a := &t.absence
	known := t.Index.Len() > 0 || t.Status.Synced.Load()
	if kube.IsUnconfirmed(denial) {
		*a = catalog.Absence{}
		if kube.IsOutage(denial) {
			t.Unwatched.Fail()
		}
		return denial
	}
	if !known {
		if a.Since.IsZero() {
			a.Since = time.Now()
		}
		if time.Since(a.Since) >= t.Timing.Unserved {
			t.noteGone()
		}
		return denial
	}
	if catalog.ServedOtherwise(ctx, t.Clients.Discovery, t.Spec.Wanted()) {
		*a = catalog.Absence{}
		t.Unwatched.Fail()
		if t.Index.Len() == 0 {
			t.noteGone()
		}
		return denial
	}
	began := a.Since.IsZero()
	due, open := a.Confirm(ctx, t.Served, t.Spec.Wanted(), t.Notice.Custom.Load(), denial, t.Timing.Periods)
	if open != "" {
		return fmt.Errorf("%w; informd keeps the %d objects: %s", denial, t.Index.Len(), open)
	}
	if began {
		t.Unwatched.unlisted()
	}
	if time.Now().Before(due) {
		return fmt.Errorf("%w; unless the resource returns, informd announces its %d objects as deleted at %s",
			denial, t.Index.Len(), due.UTC().Format(time.RFC3339))
	}
	return errors.Join(t.endResource(ctx, recovery.ReasonUnserved, a.At), denial)
}

// endResource announces all known objects as deleted, and forgets the target's position:
// objects that appear later are new ones, in a storage that may be another one.
func (t *Resolver) endResource(ctx context.Context, reason string, at uint64) error {
	if err := t.endAll(ctx, reason, at); err != nil {
		return err
	}
	t.Lost, t.Undecided, t.FirstOp, t.Unwatched = nil, nil, event.Added, Unwatched{}
	t.First = feed.FirstRun{}
	t.absence = catalog.Absence{}
	t.SetCursor(0)
	clear(t.Ended)
	t.Coverage.Forget()
	t.Status.Synced.Store(false)
	if err := t.Flush(ctx); err != nil {
		return err
	}
	if err := t.MarkNow(ctx); err != nil {
		return err
	}
	t.noteGone()
	return nil
}

// endAll announces all known objects as deleted, and declares events that can be missing.
// At is a revision at which they were gone, 0 if none is known.
func (t *Resolver) endAll(ctx context.Context, reason string, at uint64) error {
	lost := t.Unwatched.lost()
	if t.Notice.Custom.Load() {
		lost = t.Unwatched.lostOfCustom(t.Notice.Removed.Load(), t.Stalled)
	}
	if t.Index.Len() == 0 && t.Lost == nil && !lost {
		return nil
	}
	from := t.Resume()
	switch {
	case !t.Status.Synced.Load():
		from = t.First.Began
	case t.Lost != nil:
		from = min(from, t.Lost.From)
	}
	last := t.Cursor
	for e := range t.Index.All() {
		last = max(last, e.RV)
	}
	to := max(last+1, at)
	t.Remember(to)
	for e := range t.Index.All() {
		if err := t.End(ctx, event.Deleted, e, nil, to, true); err != nil {
			return err
		}
	}
	gap := event.GapInfo{From: from, To: to, Reason: reason, Recovered: event.RecoveredState}
	t.Logger.Warn("resource removed; its objects are announced as deleted", "reason", reason, "from", from, "to", to,
		"runbook", display.GapRunbook(reason))
	return t.EmitGap(ctx, gap)
}

// noteGone lets a wildcard that has made the target know that it may end.
func (t *Resolver) noteGone() {
	if !t.Status.Gone.Swap(true) {
		t.Served.All.Send(false)
	}
}
