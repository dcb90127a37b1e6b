package target

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// reselect applies changes of the Namespaces, between two frames.
func (t *Target) reselect(ctx context.Context) error {
	c := &t.Coverage
	if !c.Due || !c.Known {
		return nil
	}
	now, err := c.Look()
	if err != nil || now == nil {
		return err
	}
	if len(now.Match)+len(now.Unmatch) > 0 {
		t.Audits.abandon()
		err := t.flip(ctx, now)
		if err = errors.Join(err, t.declareFlips(ctx), t.Writer.Flush(ctx)); err != nil {
			if listwatch.Expired(err) {
				// It was a list that took too long, and not the watch.
				err = fmt.Errorf("list a namespace: %v", err) //nolint:errorlint // see above
			}
			return err
		}
		t.Logger.Debug("namespaces matched or unmatched", "matched", len(now.Match), "unmatched", len(now.Unmatch))
	}
	if c.Settle(now) {
		t.Marks.soon()
	}
	return t.passed(ctx, t.position.resume())
}

// flip matches and unmatches namespaces. The mark says so before the first event of it.
func (t *Target) flip(ctx context.Context, now *selection.Viewed) error {
	t.Coverage.Flipping()
	if err := t.Writer.Flush(ctx); err != nil {
		return err
	}
	if t.Marks.saved.Hash != 0 {
		if err := t.Marks.save(ctx, t.markOfNow()); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Unmatch)) {
		if err := t.unmatch(ctx, name, now.Unmatch[name].At); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Match)) {
		if err := t.match(ctx, name, now.Match[name]); err != nil {
			return err
		}
	}
	return nil
}

// match begins with a namespace that matches: its objects enter as a list at the position shows them, or one of now
// if there is none, since all of the target waits meanwhile.
func (t *Target) match(ctx context.Context, name string, f selection.Flip) error {
	c := &t.Coverage
	at, missed := c.Start(name, f, t.position.rv)
	switch l, leaving := c.Leaving(name); {
	case c.Apart: // of another store
		f.After = 0
	case l.Broken != 0 && l.Broken < f.After: // not all has entered since the flip before
		f.After, missed = min(l.Broken, t.position.rv), true
	case leaving: // its frames have counted until now
		f.After = min(f.After, t.position.rv)
	}
	c.Cover(name)
	rv, err := t.enter(ctx, name, at, f.At)
	if at != 0 && err != nil && !isLoss(err) && !errors.Is(err, emit.ErrLog) && ctx.Err() == nil {
		rv, err = t.enter(ctx, name, 0, f.At)
	}
	if err != nil {
		_, entered := t.Objects.inLog()[name]
		c.Uncover(name, f, selection.Leaving{Broken: max(f.After, 1)}, entered)
		return err
	}
	if missed || rv > t.position.rv {
		t.flipGap.widen(f.After, max(rv, t.position.rv))
	}
	c.Began(name, rv, t.position.rv)
	return nil
}

// enter has the objects of a namespace enter as a list at a revision shows them. It returns the list's revision.
func (t *Target) enter(ctx context.Context, namespace string, at, cause uint64) (uint64, error) {
	p := t.Objects.NewPass(Pass{Namespace: namespace, Newcomer: event.Entered, Cause: cause})
	rv, err := t.list(ctx, p, &listwatch.Listing{At: at, Namespace: namespace, Brief: true})
	if err != nil {
		return rv, err
	}
	return rv, t.Objects.endMissing(ctx, p, rv)
}

// unmatch ends a namespace that no longer matches. What a list shows to be as the index has it
// leaves at once; of the rest the stream has more to bring.
func (t *Target) unmatch(ctx context.Context, name string, cause uint64) error {
	c := &t.Coverage
	l, _ := c.Leaving(name)
	l = selection.Leaving{Cause: cause, Broken: l.Broken}
	c.Uncover(name, selection.Flip{After: cause}, l, true)
	left := false
	until, err := t.Discovery.Source.List(ctx, &listwatch.Listing{Namespace: name, Brief: true}, t.Discovery.Source.Whole, func(o *frame.Object, bad *frame.Malformed) error {
		t.Status.Progressed()
		if bad == nil { // else what is known of it leaves later
			if e := t.Index.Get(o.Namespace, o.Name); e != nil && t.Index.IsUID(e, o.UID) && t.Index.Newest(e) == o.ResourceVersion {
				left = true
				return t.Objects.leave(ctx, e, o, cause, false)
			}
		}
		return nil
	})
	if err != nil && left && l.Broken == 0 {
		l.Broken = max(t.position.rv, 1) // of what has left the watch brings no change, should the namespace match for a while
	}
	if listwatch.Unsupported(err) { // then all of it leaves once the stream has come to the present
		until, err = t.Discovery.Source.Revision(ctx)
	}
	known := max(t.position.rv, t.position.logged, c.ListedAt(name))
	if err == nil && until < known {
		err = fmt.Errorf("%w (list at %d)", errBehind, until) // what it lacks may have been born since
	}
	if err = errors.Join(err, t.Writer.Flush(ctx)); err == nil {
		if l.Until = until; !c.Apart {
			l.Until = min(until, max(cause, known)) // it may match again after that
		}
		if l.Broken != 0 {
			t.flipGap.widen(l.Broken, l.Until)
		}
		l.Broken = 0
	}
	c.Uncover(name, selection.Flip{After: cause}, l, true)
	return err
}

// flipGap is what namespaces lack that are matched or unmatched together.
type flipGap event.GapInfo

// widen notes that states of a namespace may be missing.
func (g *flipGap) widen(after, to uint64) {
	if after >= to {
		return
	}
	if g.To != 0 {
		after, to = min(after, g.From), max(to, g.To)
	}
	*g = flipGap{From: after, To: to, Reason: reasonSelection, Recovered: event.RecoveredState}
}

// declareFlips emits the gap of namespaces that flipped.
func (t *Target) declareFlips(ctx context.Context) error {
	g := event.GapInfo(t.flipGap)
	if g.To == 0 {
		return nil
	}
	t.flipGap = flipGap{}
	t.Logger.Warn("history lost; declaring a gap", "reason", g.Reason, "from", g.From, "to", g.To, "recovered", g.Recovered,
		"runbook", display.GapRunbook(g.Reason))
	return t.Writer.EmitGap(ctx, g)
}
