package audit

import (
	"context"
	"errors"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/missing"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/dynwatch/internal/sweep"
	"github.com/informd/informd/pkg/event"
)

// repairAll takes note of what a sample has found, at once, and announces the states that
// the stream lacks, each as soon as the watch has passed it.
func (t *Auditor) repairAll(ctx context.Context, a *Run) error {
	if len(a.Wrong) == 0 || len(t.Undecided) > 0 {
		return nil
	}
	if !a.Convicted {
		a.Convicted, a.Pending = true, a.Wrong
		for _, w := range a.Wrong {
			t.Convict(w.Listed, &w.Object, w.There, a.RV)
		}
	}
	before := a.Repaired
	err := t.repairReady(ctx, a)
	if a.Repaired == before {
		return err
	}
	return errors.Join(err, t.declareRepair(ctx)) // also if a later object could not be read
}

// repairReady announces the states that the watch has passed. The others stay pending.
func (t *Auditor) repairReady(ctx context.Context, a *Run) error {
	var rest []*Wrong
	for i, w := range a.Pending {
		ready, err := a.Passed(ctx, t.Source, w, t.Cursor)
		lacking := false
		if err == nil && ready {
			lacking, err = t.repair(ctx, w, min(a.RV, t.Cursor))
		}
		if err != nil {
			a.Pending = append(rest, a.Pending[i:]...)
			return err
		}
		if !ready {
			rest = append(rest, w)
		}
		if lacking {
			a.Repaired++
		}
	}
	a.Pending = rest
	return nil
}

// declareRepair declares that states may be missing between the last audit and this one.
func (t *Auditor) declareRepair(ctx context.Context) error {
	gap := event.GapInfo{From: t.Clean, To: t.Cursor, Reason: recovery.ReasonAudit, Recovered: event.RecoveredState}
	if err := t.EmitGap(ctx, gap); err != nil {
		return err
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	// The checkpoint counts objects. After a kill, one from before this deletion would count one
	// more than the index has, which looks like a journal that lost events.
	return t.MarkNow(ctx)
}

// repair announces the state that etcd holds of an object at revision rv, if the index
// holds an older one. It reports whether it does.
func (t *Auditor) repair(ctx context.Context, w *Wrong, rv uint64) (bool, error) {
	e, o := t.Index.Get(w.Listed.Namespace, w.Listed.Name), &w.Object
	if e != nil && e.RV > rv {
		return false, nil // the watch has brought a newer one
	}
	delete(t.Running.Suspects, index.Key(w.Listed.Namespace, w.Listed.Name))
	switch {
	case !w.There && e == nil:
		return false, nil
	case !w.There:
		return true, t.endRepaired(ctx, e, rv)
	case e == nil && t.EndedAt(o.Namespace, o.Name) > o.ResourceVersion:
		return false, nil
	case e != nil && t.Index.IsUID(e, o.UID) && t.Index.Newest(e) >= o.ResourceVersion:
		return false, t.CheckRead(ctx, e, listwatch.ListedOf(o))
	case e == nil && rv < t.Cursor: // it may have ended since
		now, there, err := t.Source.MatchAt(ctx, o.Namespace, o.Name, t.Cursor)
		if err != nil || !there {
			if listwatch.Expired(err) || listwatch.Unsupported(err) {
				err = nil // the next audit finds it again
			}
			return false, err
		}
		o, rv = &now, t.Cursor
	}
	if e == nil {
		if err := t.CheckRead(ctx, nil, listwatch.ListedOf(o)); err != nil {
			return false, err
		}
	}
	s := t.NewPass(sweep.Pass{At: rv, Newcomer: event.Added, Replay: true})
	return true, t.Observe(ctx, s, o)
}

// endRepaired ends what etcd does not hold any more.
func (t *Auditor) endRepaired(ctx context.Context, e *index.Entry, rv uint64) error {
	trust := t.Trust
	t.Trust = missing.Trust{} // etcd has just said so
	defer func() { t.Trust = trust }()
	return t.EndAbsent(ctx, e, rv)
}

// mismatches are what the sample of an audit has found, at most as many as are kept of a
// target.
func (t *Auditor) mismatches(a *Run) (all []status.Mismatch) {
	for _, w := range a.Wrong[:min(len(a.Wrong), status.KeptMismatches)] {
		all = append(all, t.MismatchOf(w.Listed, &w.Object, w.There, a.RV))
	}
	return all
}
