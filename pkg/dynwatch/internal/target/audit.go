package target

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
)

// An audit compares the index with a list while the watch stays open. Nothing
// should ever come of it: what it finds is a frame that the API server, or
// something before it, has left out. A list is of one revision and the index
// moves on, so what differs is a suspect only, until the watch has passed the
// list's revision. Then a reconcile compares a list at the position.

// auditLines is how many divergences of one audit are logged by name.
const auditLines = 20

// ErrAbandoned says that an audit did not come to its end.
var ErrAbandoned = errors.New("the watch ended during the audit")

// AuditResult is the outcome of an audit: see dynwatch.AuditResult.
type AuditResult struct {
	Revision             uint64
	Objects, Divergences int
	Err                  error
}

// audits are those of a target.
type audits struct {
	// Began is the revision up to which the process before this one has come.
	began uint64
	// due is when the next one is. After one that was abandoned it is later by pause.
	due   time.Time
	pause time.Duration
	// Requests are audits on demand, waiting those that were taken up.
	Requests chan chan<- AuditResult
	waiting  []chan<- AuditResult
	running  *auditRun
}

// newAudits spreads the first audits of all targets over the interval.
func newAudits(interval time.Duration) audits {
	a := audits{Requests: make(chan chan<- AuditResult)}
	if interval > 0 {
		a.due = time.Now().Add(rand.N(interval)) //nolint:gosec // jitter, not a secret
	}
	return a
}

// requestAudit has an audit on demand begin.
func (t *Target) requestAudit(ctx context.Context, reply chan<- AuditResult) {
	t.Audits.waiting = append(t.Audits.waiting, reply)
	t.beginAudit(ctx)
}

// beginAudit begins an audit if one is wanted, and no re-snapshot is in progress, which marks entries, too.
func (t *Target) beginAudit(ctx context.Context) {
	wanted := len(t.Audits.waiting) > 0 || !t.Audits.due.IsZero() && !time.Now().Before(t.Audits.due)
	if !wanted || t.Audits.running != nil || t.resnapshot != nil {
		return
	}
	if t.Timing.AuditEvery > 0 {
		t.Audits.due = time.Now().Add(t.Timing.AuditEvery*3/4 + rand.N(t.Timing.AuditEvery/2+1)) //nolint:gosec // jitter
	}
	t.sweeps++
	t.Audits.running = startAudit(ctx, t.Source, t.sweeps, t.Limits.Suspects)
}

// concludeAudit ends the audit that is under way once its list is there and the watch
// has passed it. It returns a loss if it has found a difference.
func (t *Target) concludeAudit(ctx context.Context) error {
	a := t.Audits.running
	if a == nil || !a.complete {
		return nil
	}
	if a.err != nil {
		t.endAudit(0, a.err)
		return nil //nolint:nilerr // the watch goes on
	}
	if a.differing() > 0 && !t.canJudge(a) {
		return nil
	}
	diverged, skipped, err := t.judge(ctx, a)
	switch {
	case isLoss(err):
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
		t.endAudit(0, fmt.Errorf("%d objects differed during the audit: too many to check", a.differing()))
		return nil
	}
	t.endAudit(diverged, nil)
	if diverged+skipped == 0 {
		t.clean = max(t.clean, min(a.rv, t.resume()))
		return nil
	}
	if diverged > 0 {
		t.Logger.Error("audit found divergence; reconciling", "count", diverged, "from", t.clean,
			"next", "report it with the log lines of the objects", "runbook", display.AlertRunbook("InformdAuditDivergence"))
	}
	return lossError{&loss{reason: reasonAudit, from: t.clean, unsure: diverged == 0}}
}

// judge returns how many of the suspects diverge, and how many change filters may explain. It asks etcd until one
// is confirmed: the reconcile that follows finds out about the others.
func (t *Target) judge(ctx context.Context, a *auditRun) (diverged, skipped int, err error) {
	for _, d := range a.suspects {
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
		if err == nil && !refuted && d.RV != 0 && t.Index.Get(d.Namespace, d.Name) == nil {
			_, err = t.checkReturned(ctx, d, t.Cursor, t.Cursor)
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
func (t *Target) canJudge(a *auditRun) bool {
	if t.Cursor < a.rv {
		t.progress.Expect(t.Cursor, a.rv)
		return false
	}
	return a.settled(t.Cursor, t.resume(), t.Timing.Tick)
}

// differs reports whether a suspect is one still: no frame has brought the index to the list's state or beyond
// it. MaySkip: change filters of the process before this one may have skipped the state.
func (t *Target) differs(a *auditRun, d listwatch.Listed) (differs, maySkip bool) {
	e := t.Index.Get(d.Namespace, d.Name)
	k := t.Index.Known(e, d.UID)
	switch {
	case k.RV > a.rv, e == nil && d.RV == 0, t.isRejected(d.UID, d.RV):
		return false, false
	case e == nil && a.ended[index.Key(d.Namespace, d.Name)] >= d.RV:
		return false, false
	case k.Object == decide.Same && k.Newest >= d.RV && !k.Contradicts(d.RV, a.rv):
		return false, false
	}
	return true, k.Object == decide.Same && d.RV <= t.Audits.began && t.mayHaveHeldBack(e, d.RV)
}

// refuted reports whether etcd explains a suspect: it has the object as the index has it, so that the list is wrong,
// or in a state that cannot be emitted.
func (t *Target) refuted(ctx context.Context, d listwatch.Listed) (bool, error) {
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
func (t *Target) endAudit(diverged int, err error) {
	r := t.Audits.running
	r.stop()
	t.Audits.running = nil
	if err != nil {
		t.Logger.Warn("audit incomplete; the next one runs on schedule", "err", err)
	} else {
		t.Status.AuditDone(diverged)
		t.Audits.pause = 0
	}
	t.answerAudits(AuditResult{Revision: r.rv, Objects: r.objects, Divergences: diverged, Err: err})
}

func (t *Target) answerAudits(r AuditResult) {
	for _, waiting := range t.Audits.waiting {
		waiting <- r // has room for one
	}
	t.Audits.waiting = nil
}

// abandonAudit ends what the end of the watch has overtaken. An audit that was due
// begins again with the next watch, and after a growing pause if that has happened before: where
// Namespaces come and go all the time, none might come to its end.
func (t *Target) abandonAudit() {
	if t.Audits.running != nil {
		t.Logger.Info("watch ended during an audit; restarting the audit",
			"count", t.Audits.running.objects, "differing", t.Audits.running.differing())
		t.Audits.running.stop()
		t.Audits.running = nil
		if t.Timing.AuditEvery > 0 {
			t.Audits.due = time.Now().Add(t.Audits.pause)
			t.Audits.pause = min(max(2*t.Audits.pause, t.Timing.Tick), t.Timing.AuditEvery/4)
		}
	}
	t.answerAudits(AuditResult{Err: ErrAbandoned})
}
