package namespaces

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/dynwatch/internal/sweep"
	"github.com/informd/informd/pkg/event"
)

// ErrReopen says that the watch is to be opened again: a frame was read, and not rendered, before its
// namespace matched, or a stretch is to come once more.
var ErrReopen = errors.New("the watch is opened again for a namespace that matches")

// Follower follows the namespaces that a target selects.
type Follower struct {
	*sweep.Sweeper
	// interrupt is called before namespaces are matched or unmatched.
	interrupt func()
	// gap is what namespaces lack that are matched or unmatched together.
	gap event.GapInfo
}

// New returns the Follower of a target. It calls interrupt before namespaces are matched
// or unmatched.
func New(s *sweep.Sweeper, interrupt func()) *Follower {
	return &Follower{Sweeper: s, interrupt: interrupt}
}

// Begin begins with the namespaces that match now. It returns false if the Namespaces were not listed yet.
func (t *Follower) Begin(ctx context.Context) (begun bool, err error) {
	c := &t.Coverage
	ahead, inLog := uint64(0), make(map[string]struct{})
	for e := range t.Index.All() {
		ahead = max(ahead, e.RV)
		inLog[t.Index.Namespace(e)] = struct{}{}
	}
	for _, rv := range t.Ended {
		ahead = max(ahead, rv)
	}
	begun, err = c.Begin(t.Timing.Timing, t.Cursor, ahead)
	switch {
	case err != nil:
		return false, fmt.Errorf("namespaceSelector: %w", err)
	case !begun:
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
	c.Known = true
	// An edit of the selector compares all objects anyway.
	if m := &t.Marked; m.Synced && m.Selection == t.Spec.Selection() && !c.Matched(m.Mark) {
		c.Suspect(m.Mark, inLog)
		if t.Lost == nil || t.Lost.Reason != recovery.ReasonRollback {
			t.Distrust(recovery.ReasonSelection)
			t.Lost.Oldest = t.Cursor
		}
	}
	return true, nil
}

func (t *Follower) entriesOf(namespace string) []*index.Entry {
	var all []*index.Entry
	for e := range t.Index.All() {
		if t.Index.Namespace(e) == namespace {
			all = append(all, e)
		}
	}
	return all
}
