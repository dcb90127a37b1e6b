package namespaces

import (
	"context"
	"fmt"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

// Reselect applies changes of the Namespaces, between two frames. It waits while history is
// recovered, for the namespaces that matched then.
func (t *Follower) Reselect(ctx context.Context) error {
	c := &t.Coverage
	if !c.Due || !c.Known || t.Lost != nil {
		return nil
	}
	now, arriving, departing, err := c.Look()
	if err != nil || now == nil {
		return err
	}
	if len(arriving)+len(departing) > 0 {
		t.interrupt()
		if err := t.turn(ctx, arriving, departing, now); err != nil {
			if listwatch.Expired(err) {
				// It was a list that took too long, and not the watch.
				err = fmt.Errorf("list a namespace: %v", err) //nolint:errorlint // see above
			}
			return err
		}
	}
	if c.Settle(now) {
		t.Marks.Soon()
	}
	return nil
}

// turn covers namespaces and stops to cover others. The mark says so before the
// first event of it: a process that dies over it looks at them again.
func (t *Follower) turn(ctx context.Context, arriving, departing []string, now *selection.Viewed) error {
	c := &t.Coverage
	c.Turn(slices.Concat(arriving, departing))
	if err := t.Flush(ctx); err != nil {
		return err
	}
	if err := t.KeepMark(ctx, t.Checkpoint()); err != nil {
		return err
	}
	for _, name := range departing {
		if err := t.depart(ctx, name, c.Namespaces.Since(name)); err != nil {
			return err
		}
	}
	for _, name := range arriving {
		if err := t.arrive(ctx, name, now.Arriving[name]); err != nil {
			return err
		}
	}
	count := c.Turned(now)
	if err := t.Pass(ctx, t.Resume()); err != nil {
		return err
	}
	t.Logger.Debug("namespaces matched or unmatched", "matched", len(arriving), "unmatched", len(departing), "count", count)
	return t.MarkNow(ctx)
}
