package dynwatch

import (
	"context"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/event"
)

// announce emits op for an object that exists, and remembers it, unless a change gate
// holds it back. e is what the index holds of it under the same uid, nil if nothing.
func (t *feed) announce(ctx context.Context, op event.Op, o *frame.Object, e *index.Entry, replay bool) error {
	return t.announceCaused(ctx, op, o, e, replay, o.ResourceVersion)
}

// announceCaused is announce for what has entered because of another object, the
// Namespace: cause is the revision of its change.
func (t *feed) announceCaused(ctx context.Context, op event.Op, o *frame.Object, e *index.Entry, replay bool, cause uint64) error {
	if op == event.Modified && t.holdBack(e, o) {
		return nil
	}
	if e == nil && t.former != nil {
		if err := t.meetFormer(ctx, o); err != nil {
			return err
		}
	}
	return t.Announce(ctx, emit.Announcement{Op: op, Object: o, Entry: e, Replay: replay, Cause: cause, Run: t.first.run, Noted: t.first.lost})
}

// end emits op, Deleted or Left, for what the index holds as e, and forgets it.
func (t *feed) end(ctx context.Context, op event.Op, e *index.Entry, o *frame.Object, rv uint64, replay bool) error {
	if op == event.Deleted && t.lost != nil && t.lost.Walks() {
		t.lost.NoteDeleted(t.index.UID(e), rv)
	}
	return t.End(ctx, op, e, o, rv, replay)
}
