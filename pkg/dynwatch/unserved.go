package dynwatch

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/pkg/event"
)

// endUnserved ends a resource that discovery has denied for a while: it was removed,
// and its objects with it. If a watch was open until then, it has told of their ends.
// If none was, the objects that are known end here, and a gap says that there may have
// been others. When the resource comes back, it is a new one.
func (t *target) endUnserved(ctx context.Context) error {
	known := t.index.len() > 0 || t.status.synced.Load()
	if known && t.servedOtherwise(ctx) {
		t.unservedSince, t.unwatched = time.Time{}, true
		if t.index.len() == 0 {
			t.noteGone()
		}
		return nil
	}
	if t.unservedSince.IsZero() {
		t.unservedSince, t.unservedAt = time.Now(), 0
		if known {
			t.unservedAt = t.revisionUnserved(ctx)
		}
	}
	if time.Since(t.unservedSince) < t.timing.unserved {
		return nil
	}
	if !known {
		t.noteGone()
		return nil
	}
	if err := t.endAllUnserved(ctx); err != nil {
		return err
	}
	t.lost, t.undecided, t.first, t.firstOp, t.unwatched = nil, nil, firstList{}, event.Added, false
	t.dropped = dropped{}
	t.setCursor(0)
	clear(t.ended) // it may come back in another storage, with lower revisions
	t.coverage.forget()
	t.status.synced.Store(false)
	if err := t.flush(ctx); err != nil {
		return err
	}
	if err := t.markNow(ctx); err != nil {
		return err
	}
	t.noteGone()
	return nil
}

// revisionUnserved is a revision of now, when the resource is gone, 0 if none can be
// had. That of another resource means something only if both are in one storage.
func (t *target) revisionUnserved(ctx context.Context) uint64 {
	if !t.nudge.custom.Load() {
		return 0
	}
	rv, err := t.served.customRevision(ctx)
	if err != nil {
		t.logger.Debug("it is not known at which revision the resource was gone", "err", err)
		return 0
	}
	return rv
}

// servedOtherwise reports whether it can be that only the version that is asked for
// is gone: the objects are there then.
func (t *target) servedOtherwise(ctx context.Context) bool {
	if t.spec.version == "" {
		return false
	}
	other := t.spec
	other.version = ""
	_, err := resolve(ctx, t.clients.discovery, other)
	return !errors.Is(err, errNotServed)
}

// endAllUnserved ends all objects that are known, and declares what may be missing.
func (t *target) endAllUnserved(ctx context.Context) error {
	if t.index.len() == 0 && t.lost == nil && !t.unwatched {
		return nil
	}
	from := t.resume()
	switch {
	case !t.status.synced.Load():
		from = t.first.began
	case t.lost != nil:
		from = min(from, t.lost.from)
	}
	last := t.cursor
	for e := range t.index.all() {
		last = max(last, e.rv)
	}
	to := max(last+1, t.unservedAt)
	for e := range t.index.all() {
		if err := t.end(ctx, event.Deleted, e, nil, to, true); err != nil {
			return err
		}
	}
	gap := event.GapInfo{From: from, To: to, Reason: reasonUnserved, Recovered: event.RecoveredState}
	t.logger.Warn("the resource is gone, and its objects with it", "reason", reasonUnserved, "from", from, "to", to)
	return t.emitGap(ctx, gap)
}

// noteGone lets a wildcard that has made the target know that it may end.
func (t *target) noteGone() {
	if !t.status.gone.Swap(true) {
		t.served.all.send(false)
	}
}
