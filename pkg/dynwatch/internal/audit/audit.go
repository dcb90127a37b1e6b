package audit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/sweep"
)

// An audit compares the index with a list while the watch stays open. Nothing
// should ever come of it: what it finds is a frame that the API server, or
// something before it, has left out. A list is of one revision and the index
// moves on, so what differs is a suspect only, until the watch has passed the
// list's revision. Then a reconcile compares a list at the position.

// auditLines is how many divergences of one audit are logged by name.
const auditLines = 20

var (
	// ErrDiverged says that an audit has found a difference; a reconcile comes next.
	ErrDiverged = errors.New("the watch missed events")
	// ErrAbandoned says that an audit did not come to its end.
	ErrAbandoned = errors.New("the watch ended during the audit")
)

// Result is the outcome of an audit: see dynwatch.AuditResult.
type Result struct {
	Revision             uint64
	Objects, Divergences int
	Err                  error
}

// Auditor runs the audits of a target.
type Auditor struct {
	*sweep.Sweeper
	// Began is the revision up to which the process before this one has come.
	Began uint64
	// due is when the next one is. After one that was abandoned it is later by pause.
	due   time.Time
	pause time.Duration
	// Requests are audits on demand, waiting those that were taken up.
	Requests chan chan<- Result
	waiting  []chan<- Result
	Running  *Run
}

// New spreads the first audits of all targets over the interval.
func New(s *sweep.Sweeper) *Auditor {
	t := &Auditor{Sweeper: s, Requests: make(chan chan<- Result)}
	if interval := t.Timing.AuditEvery; interval > 0 {
		t.due = time.Now().Add(rand.N(interval)) //nolint:gosec // jitter, not a secret
	}
	return t
}

// Request has an audit on demand begin.
func (t *Auditor) Request(ctx context.Context, reply chan<- Result) {
	t.waiting = append(t.waiting, reply)
	t.BeginDue(ctx)
}

// BeginDue begins an audit if one is wanted and the index is whole.
func (t *Auditor) BeginDue(ctx context.Context) {
	wanted := len(t.waiting) > 0 || !t.due.IsZero() && !time.Now().Before(t.due)
	if !wanted || t.Running != nil || !t.Whole() {
		return
	}
	if t.Timing.AuditEvery > 0 {
		t.due = time.Now().Add(t.Timing.AuditEvery*3/4 + rand.N(t.Timing.AuditEvery/2+1)) //nolint:gosec // jitter
	}
	t.Sweeps++
	t.Running = Start(ctx, t.Source, t.Sweeps, t.Limits.Suspects)
}

// Compare compares one page with the index, and what the list lacks once it is
// over.
func (t *Auditor) Compare(page []listwatch.Listed, more bool) {
	t.Running.Compare(t.Index, page, more)
}

// Conclude ends the audit that is under way once its list is there and the watch
// has passed it. It returns errDiverged if a reconcile must follow.
func (t *Auditor) Conclude(ctx context.Context) error {
	a := t.Running
	if a == nil || !a.Complete {
		return nil
	}
	if a.Err != nil {
		t.endAudit(0, a.Err)
		return nil //nolint:nilerr // the watch goes on
	}
	if a.Differing() > 0 && !t.canJudge(a) {
		return nil
	}
	diverged, skipped, err := t.judge(ctx, a)
	switch {
	case errors.Is(err, sweep.ErrRolledBack):
		t.endAudit(diverged+1, nil)
		return err
	case err != nil:
		t.endAudit(0, err)
		if errors.Is(err, emit.ErrLog) {
			return err
		}
		return nil // the watch goes on
	}
	if diverged == 0 && a.more > 0 {
		t.endAudit(0, fmt.Errorf("%d objects differed during the audit: too many to check", a.Differing()))
		return nil
	}
	t.endAudit(diverged, nil)
	if diverged+skipped == 0 {
		t.Clean = max(t.Clean, min(a.RV, t.Resume()))
		return nil
	}
	t.Lost = &recovery.Lost{Phase: recovery.Reconciling, From: t.Clean, Reason: recovery.ReasonAudit, Unsure: diverged == 0}
	if diverged > 0 {
		t.Logger.Error("audit found divergence; reconciling", "count", diverged, "from", t.Clean,
			"next", "report it with the log lines of the objects", "runbook", display.AlertRunbook("InformdAuditDivergence"))
	}
	return ErrDiverged
}

// judge returns how many of the suspects diverge, and how many change filters may explain. It asks etcd until one
// is confirmed: the reconcile that follows finds out about the others.
func (t *Auditor) judge(ctx context.Context, a *Run) (diverged, skipped int, err error) {
	for _, d := range a.Suspects {
		differs, may := t.differs(a, d)
		if may {
			skipped++
		}
		if !differs || may {
			continue
		}
		refuted := false
		if diverged == 0 {
			refuted, err = t.refuted(ctx, d)
		}
		if err == nil && !refuted {
			err = t.CheckReturned(ctx, d)
		}
		if err != nil {
			return diverged, skipped, err
		}
		if refuted {
			continue
		}
		if diverged++; diverged <= auditLines {
			t.Logger.Error("audit found a divergent object",
				"namespace", d.Namespace, "name", d.Name, "resource_version", d.RV, "uid", d.UID)
		}
	}
	return diverged, skipped, nil
}

// canJudge reports whether the index is what the watch has brought up to the cursor,
// and the cursor is past the list.
func (t *Auditor) canJudge(a *Run) bool {
	if t.Cursor < a.RV || len(t.Undecided) > 0 {
		t.Progress.Expect(t.Cursor, a.RV)
		return false
	}
	return a.Settled(t.Cursor, t.Resume(), t.Timing.Tick)
}

// differs reports whether a suspect is one still: no frame has brought the index to the list's state or beyond
// it. MaySkip: change filters of the process before this one may have skipped the state.
func (t *Auditor) differs(a *Run, d listwatch.Listed) (differs, maySkip bool) {
	e := t.Index.Get(d.Namespace, d.Name)
	k := t.Index.Known(e, d.UID)
	switch {
	case k.RV > a.RV, e == nil && d.RV == 0, t.IsRejected(d.UID, d.RV):
		return false, false
	case e == nil && a.ended[index.Key(d.Namespace, d.Name)] >= d.RV:
		return false, false
	case k.Object == decide.Same && k.Newest >= d.RV && !k.Contradicts(d.RV, a.RV):
		return false, false
	}
	return true, k.Object == decide.Same && d.RV <= t.Began && t.MayHaveHeldBack(e, d.RV)
}

// refuted reports whether etcd explains a suspect: it has the object as the index has it, so that the list is wrong,
// or in a state that cannot be emitted.
func (t *Auditor) refuted(ctx context.Context, d listwatch.Listed) (bool, error) {
	t.Status.Alive()
	o, there, err := t.Source.MatchAt(ctx, d.Namespace, d.Name, t.Cursor)
	now := listwatch.Expired(err) || listwatch.Unsupported(err)
	if now {
		o, there, err = t.Source.MatchAt(ctx, d.Namespace, d.Name, 0)
	}
	_, bad := errors.AsType[*frame.Malformed](err)
	switch e := t.Index.Get(d.Namespace, d.Name); {
	case bad:
		return true, nil
	case err != nil:
		return false, err
	case now: // it can have changed since: it must be as the list has it
		return there != (d.RV != 0) || there && (o.UID != d.UID || o.ResourceVersion != d.RV), nil
	case e == nil:
		return !there, nil
	default:
		return there && t.Index.IsUID(e, o.UID) && o.ResourceVersion == t.Index.Newest(e), nil
	}
}

// endAudit answers the callers that wait for the audit.
func (t *Auditor) endAudit(diverged int, err error) {
	r := t.Running
	r.Stop()
	t.Running = nil
	if err != nil {
		t.Logger.Warn("audit incomplete; the next one runs on schedule", "err", err)
	} else {
		t.Status.AuditDone(diverged)
		t.pause = 0
	}
	t.answer(Result{Revision: r.RV, Objects: r.Objects, Divergences: diverged, Err: err})
}

func (t *Auditor) answer(r Result) {
	for _, waiting := range t.waiting {
		waiting <- r // has room for one
	}
	t.waiting = nil
}

// Abandon ends what the end of the watch has overtaken. An audit that was due
// begins again with the next watch, and after a growing pause if that has happened before: where
// Namespaces come and go all the time, none might come to its end.
func (t *Auditor) Abandon() {
	if t.Running != nil {
		t.Logger.Info("watch ended during an audit; restarting the audit",
			"count", t.Running.Objects, "differing", t.Running.Differing())
		t.Running.Stop()
		t.Running = nil
		if t.Timing.AuditEvery > 0 {
			t.due = time.Now().Add(t.pause)
			t.pause = min(max(2*t.pause, t.Timing.Tick), t.Timing.AuditEvery/4)
		}
	}
	t.answer(Result{Err: ErrAbandoned})
}
