package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

// errReadAhead: a frame was read, and not rendered, before its namespace came to be
// covered. The watch is opened again from the cursor and brings it once more.
var errReadAhead = errors.New("a frame was read before its namespace matched")

// begin decides, once the Namespaces were listed, with which
// of them covered the target begins: with those that are now, or, if it goes on from
// a mark, with those that were then, so that what has changed since comes out.
func (t *namespacer) begin(ctx context.Context) (begun bool, err error) {
	c := &t.coverage
	now, err := c.Await(t.timing.Timing)
	switch {
	case err != nil:
		return false, fmt.Errorf("namespaceSelector: %w", err)
	case now == nil:
		t.setState(Syncing, "waiting for the first list of namespaces")
		return false, nil
	}
	if err := c.FindStores(ctx, t.source.Revision); err != nil {
		return false, err
	}
	if c.Apart {
		t.logger.Info("namespaces have a separate store; matched namespaces are listed",
			"next", "none: a gap declares the changes that were filtered out before")
	}
	ahead := uint64(0)
	for e := range t.index.All() {
		ahead = max(ahead, e.RV)
	}
	for _, rv := range t.ended {
		ahead = max(ahead, rv)
	}
	c.Begin(now, ahead)
	if m := t.marked; m.Synced && m.At != 0 && (t.lost == nil || t.lost.Reason != recovery.ReasonSelection) {
		resumed, err := c.Resume(ctx, m.Mark, m.RV, now)
		switch {
		case errors.Is(err, selection.ErrForgotten):
			if t.lost == nil {
				t.distrust(recovery.ReasonSelection)
			}
		case err != nil:
			return false, err
		case resumed:
			t.siftNamespaces()
		}
	}
	c.Begun(now)
	return true, nil
}

// awaitNamespaces begins with the namespaces that match, or waits until there may be a list
// of them.
func (t *target) awaitNamespaces(ctx context.Context) error {
	if begun, err := t.namespaces.begin(ctx); begun || err != nil {
		return err
	}
	t.endOpening()
	for {
		t.status.beatNow()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.coverage.Changed:
			return nil
		case <-time.After(t.timing.Tick):
		}
	}
}
