package missing

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// Skip passes over a frame that is older than the list with which its namespace began. A
// state that the list did not hold is lost; the first one declares that.
func (t *Decider) Skip(ctx context.Context, f selection.LeftFrame) error {
	c := &t.Coverage
	to := c.ListedAt(f.Namespace)
	if after, skips := c.Skips(f, t.Explained); skips {
		return t.Declare(ctx, event.GapInfo{From: after, To: to})
	}
	return nil
}

// Declare says that states may be missing of namespaces that have turned, unless that
// was said.
func (t *Decider) Declare(ctx context.Context, g event.GapInfo) error {
	g.Reason, g.Recovered = recovery.ReasonSelection, event.RecoveredState
	if !t.Coverage.Declares(g) {
		return nil
	}
	t.Logger.Warn("history lost; declaring a gap", "reason", g.Reason, "from", g.From, "to", g.To, "recovered", g.Recovered,
		"runbook", display.GapRunbook(g.Reason))
	return t.EmitGap(ctx, g)
}

// DeclareMissing says what may be missing of a namespace that leaves, before an event of it shows that
// it matched.
func (t *Decider) DeclareMissing(ctx context.Context, namespace string, rv uint64) error {
	if after, to, missing := t.Coverage.MissingUpTo(namespace, rv); missing {
		return t.Declare(ctx, event.GapInfo{From: after, To: to})
	}
	return nil
}

// Explained reports whether the index has all that frames brought: they were of new
// objects, which have not changed since.
func (t *Decider) Explained(frames []selection.LeftFrame) bool {
	return !slices.ContainsFunc(frames, func(f selection.LeftFrame) bool {
		e := t.Index.Get(f.Namespace, f.Name)
		return f.Kind != watch.Added || e == nil || e.RV != f.RV
	})
}

// endUncovered ends what a list at rv cannot hold because its namespace is not
// covered any more.
func (t *Decider) endUncovered(ctx context.Context, e *index.Entry, rv uint64) error {
	if t.lostBy(recovery.ReasonSelection) {
		_, there, err := t.stillThere(ctx, e, rv)
		switch {
		case err == nil && !there:
			return t.End(ctx, event.Deleted, e, nil, rv, true)
		case err != nil && !listwatch.Expired(err) && !listwatch.Unsupported(err):
			return err
		}
		return t.WriteForgotten(ctx, e) // the cluster has not changed, or its state is unknown
	}
	leaving, _ := t.Coverage.Leaving(t.Index.Namespace(e))
	return t.EndOutside(ctx, e, rv, cmp.Or(leaving.Cause, t.Coverage.At(), rv), true)
}

// EndOutside ends what is not covered any more: it left, unless it is gone at
// revision at.
func (t *Decider) EndOutside(ctx context.Context, e *index.Entry, at, cause uint64, replay bool) error {
	if err := t.DeclareMissing(ctx, t.Index.Namespace(e), at); err != nil {
		return err
	}
	o, there, err := t.stillThere(ctx, e, at)
	switch {
	case listwatch.Expired(err), listwatch.Unsupported(err):
		o = nil // nothing says that it is gone
	case err != nil:
		return err
	case !there:
		return t.End(ctx, event.Deleted, e, nil, at, true)
	}
	if o == nil {
		if o, err = t.LastObject(ctx, e); err != nil {
			return err
		}
	}
	return t.Leave(ctx, e, o, cause, replay)
}

// Leave ends what is there and no longer covered. If the target resumed behind its
// last event, the watch brings that again.
func (t *Decider) Leave(ctx context.Context, e *index.Entry, o *frame.Object, cause uint64, replay bool) error {
	if e.RV > t.Cursor {
		t.Ended[index.Key(t.Index.Namespace(e), t.Index.Name(e))] = e.RV
	}
	return t.End(ctx, event.Left, e, o, cause, replay)
}
