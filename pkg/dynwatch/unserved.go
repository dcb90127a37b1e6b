package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// discoveryLag is how long discovery can take to follow a definition. A watch that has
// been closed for longer than that can have missed events.
const discoveryLag = 10 * time.Second

// endUnserved follows a resource that discovery does not list. When the authorities have
// agreed for long enough that it was removed, its objects were removed with it. If a watch
// was open until then, the watch has brought their deletions. If none was, the known
// objects get them here, and a gap says that there can have been others. When the resource
// returns, it is a new one. endUnserved returns the denial, with what follows from it.
func (t *target) endUnserved(ctx context.Context, denial error) error {
	a := &t.absence
	known := t.index.Len() > 0 || t.status.synced.Load()
	if kube.IsUnconfirmed(denial) {
		*a = catalog.Absence{}
		t.unwatched = t.unwatched || kube.IsOutage(denial)
		return denial
	}
	if !known {
		if a.Since.IsZero() {
			a.Since = time.Now()
		}
		if time.Since(a.Since) >= t.timing.Unserved {
			t.noteGone()
		}
		return denial
	}
	if catalog.ServedOtherwise(ctx, t.clients.Discovery, t.spec.wanted()) {
		*a, t.unwatched = catalog.Absence{}, true
		if t.index.Len() == 0 {
			t.noteGone()
		}
		return denial
	}
	began := a.Since.IsZero()
	due, open := a.Confirm(ctx, t.served, t.spec.wanted(), t.nudge.Custom.Load(), denial, t.timing.Periods)
	if open != "" {
		return fmt.Errorf("%w; informd keeps the %d objects: %s", denial, t.index.Len(), open)
	}
	if began {
		t.unwatched = t.unwatched || !t.closedSince.IsZero() && time.Since(t.closedSince) > discoveryLag
	}
	if time.Now().Before(due) {
		return fmt.Errorf("%w; unless the resource returns, informd announces its %d objects as deleted at %s",
			denial, t.index.Len(), due.UTC().Format(time.RFC3339))
	}
	return errors.Join(t.endResource(ctx, recovery.ReasonUnserved, a.At), denial)
}

// endResource announces all known objects as deleted, and forgets the target's position:
// objects that appear later are new ones, in a storage that may be another one.
func (t *target) endResource(ctx context.Context, reason string, at uint64) error {
	if err := t.endAll(ctx, reason, at); err != nil {
		return err
	}
	t.lost, t.undecided, t.firstOp, t.unwatched = nil, nil, event.Added, false
	t.list, t.first = firstList{}, firstRun{}
	t.dropped, t.absence = dropped{}, catalog.Absence{}
	t.setCursor(0)
	clear(t.ended)
	t.coverage.Forget()
	t.status.synced.Store(false)
	if err := t.Flush(ctx); err != nil {
		return err
	}
	if err := t.markNow(ctx); err != nil {
		return err
	}
	t.noteGone()
	return nil
}

// endAll announces all known objects as deleted, and declares events that can be missing.
// At is a revision at which they were gone, 0 if none is known.
func (t *target) endAll(ctx context.Context, reason string, at uint64) error {
	if t.index.Len() == 0 && t.lost == nil && !t.unwatched {
		return nil
	}
	from := t.resume()
	switch {
	case !t.status.synced.Load():
		from = t.first.began
	case t.lost != nil:
		from = min(from, t.lost.From)
	}
	last := t.cursor
	for e := range t.index.All() {
		last = max(last, e.RV)
	}
	to := max(last+1, at)
	t.remember(to)
	for e := range t.index.All() {
		if err := t.end(ctx, event.Deleted, e, nil, to, true); err != nil {
			return err
		}
	}
	gap := event.GapInfo{From: from, To: to, Reason: reason, Recovered: event.RecoveredState}
	t.logger.Warn("resource removed; its objects are announced as deleted", "reason", reason, "from", from, "to", to)
	return t.EmitGap(ctx, gap)
}

// noteGone lets a wildcard that has made the target know that it may end.
func (t *target) noteGone() {
	if !t.status.gone.Swap(true) {
		t.served.All.Send(false)
	}
}
