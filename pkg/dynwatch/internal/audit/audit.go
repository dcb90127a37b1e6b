package audit

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/sweep"
	"github.com/informd/informd/pkg/event"
)

// An audit compares the index with a list while the watch stays open. Nothing
// should ever come of it: what it finds is a frame that the API server, or
// something before it, has left out. A list is of one revision and the index
// moves on, so what differs is a suspect only, until the watch has passed the
// list's revision and a look at the object by name says the same.

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
	if !wanted || t.Running != nil || t.Lost != nil || len(t.Dropped.Candidates) > 0 {
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
	t.Running.Compare(t.Index, page, more, t.mayHaveHeldBack)
}

// mayHaveHeldBack reports whether the process before this one may have held a state back.
func (t *Auditor) mayHaveHeldBack(e *index.Entry, rv uint64) bool {
	return rv <= t.Began && t.MayHaveHeldBack(e, rv)
}

// Conclude ends the audit that is under way once its list is there and the watch
// has passed it. It returns errDiverged if a reconcile must follow.
func (t *Auditor) Conclude(ctx context.Context) error {
	a := t.Running
	if a == nil || !a.Complete {
		return nil
	}
	if len(a.Suspects) > 0 && !t.canJudge(a) {
		return nil
	}
	diverged, err := t.verdict(ctx, a)
	if errors.Is(err, sweep.ErrRolledBack) {
		t.endAudit(max(diverged, 1), nil)
		return err
	}
	if errors.Is(err, emit.ErrLog) {
		return err
	}
	t.endAudit(diverged, err)
	switch {
	case err == nil && diverged > 0:
		t.Logger.Error("audit found divergence; reconciling", "count", diverged, "from", t.Clean,
			"next", "report it with the log lines of the objects")
		t.Lost = &recovery.Lost{Phase: recovery.Reconciling, From: t.Clean, Reason: recovery.ReasonAudit}
		return ErrDiverged
	case err == nil:
		t.Clean = max(t.Clean, min(a.RV, t.Resume()))
	}
	return nil
}

// canJudge reports whether the index is what the watch has told up to the cursor,
// and the cursor is past the list.
func (t *Auditor) canJudge(a *Run) bool {
	if t.Cursor < a.RV {
		t.Progress.Expect(t.Cursor, a.RV)
		return false
	}
	return a.Settled(t.Cursor, t.Resume(), t.Timing.Tick)
}

// verdict returns how many of the suspects diverge.
func (t *Auditor) verdict(ctx context.Context, a *Run) (diverged int, err error) {
	if a.Err != nil {
		return 0, a.Err
	}
	for _, d := range a.Suspects {
		wrong, err := t.diverges(ctx, a, d)
		if err != nil {
			return diverged, err
		}
		if !wrong {
			continue
		}
		if diverged++; diverged <= auditLines {
			t.Logger.Error("audit found a divergent object",
				"namespace", d.Namespace, "name", d.Name, "resource_version", d.RV, "uid", d.UID)
		}
	}
	if diverged == 0 {
		return 0, a.Unchecked()
	}
	return diverged, nil
}

// diverges reports whether a suspect is one still: neither has a frame brought the
// index to the list's state or beyond it, nor does etcd say that the index is
// right as of now.
func (t *Auditor) diverges(ctx context.Context, a *Run, d listwatch.Listed) (bool, error) {
	t.Status.Alive()
	o, there, open, err := a.Read(ctx, t.Source, t.Index, d, t.Cursor)
	if !open {
		return false, err
	}
	e := t.Index.Get(d.Namespace, d.Name)
	if err == nil && there {
		err = t.CheckRead(ctx, e, listwatch.Listed{Namespace: d.Namespace, Name: d.Name, UID: o.UID, RV: o.ResourceVersion})
	}
	if err != nil || e == nil {
		return there, err
	}
	return t.differs(ctx, e, &o, there)
}

// differs reports whether the index holds another state of an object than etcd does.
func (t *Auditor) differs(ctx context.Context, e *index.Entry, o *frame.Object, there bool) (bool, error) {
	if !there || !t.Index.IsUID(e, o.UID) {
		return true, nil
	}
	if o.ResourceVersion > e.RV {
		held, err := t.Held(ctx, e, o) // by the process before this one
		switch {
		case err != nil:
			return false, err
		case held:
			t.NoteHeldBack(e, o.ResourceVersion)
		case t.HeldBackBy != t.FiltersID() && t.mayHaveHeldBack(e, o.ResourceVersion):
			// Change filters of an earlier config may have held it back, so this is no proof of a loss.
			return false, t.Announce(ctx, event.Modified, o, e, true)
		}
	}
	return o.ResourceVersion != t.Index.Newest(e), nil
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
		if t.HeldBackBy != 0 && diverged == 0 { // nothing that earlier filters held back is left
			t.HeldBackBy = t.FiltersID()
		}
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
