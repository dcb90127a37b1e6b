package namespaces

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/dynwatch/internal/sweep"
)

// ErrReadAhead says that a frame was read, and not rendered, before its namespace came to be
// covered. The watch is opened again from the cursor and brings it once more.
var ErrReadAhead = errors.New("a frame was read before its namespace matched")

// Follower follows the namespaces that a target selects.
type Follower struct {
	*sweep.Sweeper
	// interrupt is called before namespaces are matched or unmatched.
	interrupt func()
}

// New returns the Follower of a target. It calls interrupt before namespaces are matched
// or unmatched.
func New(s *sweep.Sweeper, interrupt func()) *Follower {
	return &Follower{Sweeper: s, interrupt: interrupt}
}

// Begin decides, once the Namespaces were listed, with which
// of them the target begins: those that match now, or, after a restart, those that matched
// at the checkpoint. Then the changes since follow.
func (t *Follower) Begin(ctx context.Context) (begun bool, err error) {
	c := &t.Coverage
	now, err := c.Await(t.Timing.Timing)
	switch {
	case err != nil:
		return false, fmt.Errorf("namespaceSelector: %w", err)
	case now == nil:
		t.SetState(status.Syncing, "waiting for the first list of namespaces")
		return false, nil
	}
	if err := c.FindStores(ctx, t.Source.Revision); err != nil {
		return false, err
	}
	if c.Apart {
		t.Logger.Info("namespaces have a separate store; matched namespaces are listed",
			"next", "none: a gap declares the changes that were filtered out before")
	}
	ahead := uint64(0)
	for e := range t.Index.All() {
		ahead = max(ahead, e.RV)
	}
	for _, rv := range t.Ended {
		ahead = max(ahead, rv)
	}
	c.Begin(now, ahead)
	if m := t.Marked; m.Synced && m.At != 0 && (t.Lost == nil || t.Lost.Reason != recovery.ReasonSelection) {
		err := c.Resume(ctx, m.Mark, m.RV)
		if err != nil && !errors.Is(err, selection.ErrForgotten) {
			return false, err
		}
		if err != nil && t.Lost == nil {
			t.Distrust(recovery.ReasonSelection)
			if !c.Apart { // a namespace may have been on its way since then
				t.Lost.From = min(t.Lost.From, m.Mark.At)
			}
		}
	}
	c.Begun(now)
	return true, nil
}
