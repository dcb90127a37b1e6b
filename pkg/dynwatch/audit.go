package dynwatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/audit"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
)

// An audit compares the index with a list while the watch stays open. Nothing
// should ever come of it: what it finds is a frame that the API server, or
// something before it, has left out. A list is of one revision and the index
// moves on, so what differs is a suspect only, until the watch has passed the
// list's revision and a look at the object by name says the same.

// auditLines is how many divergences of one audit are logged by name.
const auditLines = 20

var (
	// errDiverged: an audit has found a difference; a reconcile comes next.
	errDiverged = errors.New("the watch missed events")
	// errAbandoned: an audit did not come to its end.
	errAbandoned = errors.New("the watch ended during the audit")
)

// AuditResult is the outcome of one target's audit.
type AuditResult struct {
	Target string
	// Revision is that of the list, Objects how many it held.
	Revision uint64
	Objects  int
	// Divergences counts the objects whose state in the stream differs from the cluster. The
	// target reconciles after an audit that found some.
	Divergences int
	// Mismatches are objects of a sample that the API server showed otherwise than etcd
	// holds them.
	Mismatches []Mismatch
	// Err says why there is no outcome.
	Err error
}

// auditor runs the audits of a target.
type auditor struct {
	*sweeper
	// began is the revision up to which the process before this one has come.
	began uint64
	// due is when the next one is.
	due time.Time
	// requests are audits on demand, waiting those that were taken up.
	requests chan chan<- AuditResult
	waiting  []chan<- AuditResult
	running  *audit.Run
}

// newAuditor spreads the first audits of all targets over the interval.
func newAuditor(s *sweeper) *auditor {
	t := &auditor{sweeper: s, requests: make(chan chan<- AuditResult)}
	if interval := t.timing.audit; interval > 0 {
		t.due = time.Now().Add(rand.N(interval)) //nolint:gosec // jitter, not a secret
	}
	return t
}

// audit begins an audit if one is wanted and the index is whole.
func (t *auditor) audit(ctx context.Context) {
	wanted := len(t.waiting) > 0 || !t.due.IsZero() && !time.Now().Before(t.due)
	if !wanted || t.running != nil || t.lost != nil || len(t.undecided)+len(t.dropped.doubtful) > 0 {
		return
	}
	if t.timing.audit > 0 {
		t.due = time.Now().Add(t.timing.audit*3/4 + rand.N(t.timing.audit/2+1)) //nolint:gosec // jitter
	}
	t.sweeps++
	t.running = audit.Start(ctx, t.source, t.sweeps, t.Recent.Of(t.coverage.Filter.Covers), t.limits.suspects)
}

// auditPage compares one page with the index, and what the list lacks once it is
// over.
func (t *auditor) auditPage(page []listwatch.Listed, more bool) {
	t.running.Compare(t.index, page, more, func(e *index.Entry, rv uint64) bool {
		return rv <= t.began && t.mayHaveHeldBack(e, rv)
	})
}

// conclude ends the audit that is under way once its list is there and the watch
// has passed it. It returns errDiverged if a reconcile must follow.
func (t *auditor) conclude(ctx context.Context) error {
	a := t.running
	if a == nil || !a.Complete {
		return nil
	}
	if err := t.repairAll(ctx, a); err != nil {
		return err
	}
	if len(a.Suspects)+len(a.Pending) > 0 && !t.canJudge(a) {
		return nil
	}
	diverged, err := t.verdict(ctx, a)
	if errors.Is(err, errRolledBack) {
		t.endAudit(max(diverged, 1), nil)
		return err
	}
	if errors.Is(err, emit.ErrLog) {
		return err
	}
	t.endAudit(diverged+a.Repaired, err)
	switch {
	case err == nil && diverged > 0:
		t.logger.Error("audit found divergence; reconciling", "count", diverged, "from", t.clean,
			"next", "report it with the log lines of the objects")
		t.lost = &recovery.Lost{Phase: recovery.Reconciling, From: t.clean, Reason: recovery.ReasonAudit}
		return errDiverged
	case err == nil:
		t.clean = max(t.clean, min(a.RV, t.resume()))
	}
	return nil
}

// canJudge reports whether the index is what the watch has told up to the cursor,
// and the cursor is past the list.
func (t *auditor) canJudge(a *audit.Run) bool {
	if t.cursor < a.RV || len(t.undecided) > 0 {
		t.progress.Expect(t.cursor, a.RV)
		return false
	}
	return a.Settled(t.cursor, t.resume(), t.timing.Tick)
}

// verdict returns how many of the suspects diverge.
func (t *auditor) verdict(ctx context.Context, a *audit.Run) (diverged int, err error) {
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
			t.logger.Error("audit found a divergent object",
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
func (t *auditor) diverges(ctx context.Context, a *audit.Run, d listwatch.Listed) (bool, error) {
	t.status.beatNow()
	o, there, open, err := a.Read(ctx, t.source, t.index, d, t.cursor)
	if !open {
		return false, err
	}
	e := t.index.Get(d.Namespace, d.Name)
	if err == nil && there {
		err = t.checkRead(ctx, e, listwatch.Listed{Namespace: d.Namespace, Name: d.Name, UID: o.UID, RV: o.ResourceVersion})
	}
	if err != nil || e == nil {
		return there, err
	}
	return t.differs(e, &o, there), nil
}

// differs reports whether the index holds another state of an object than etcd does.
func (t *auditor) differs(e *index.Entry, o *frame.Object, there bool) bool {
	if !there || !t.index.IsUID(e, o.UID) {
		return true
	}
	if o.ResourceVersion > e.RV && t.unchanged(e, o) {
		t.heldBack(e, o.ResourceVersion) // by the process before this one
	}
	return o.ResourceVersion != t.index.Newest(e)
}

// endAudit tells whoever waits how the audit went.
func (t *auditor) endAudit(diverged int, err error) {
	r := t.running
	r.Stop()
	t.running = nil
	if err != nil {
		t.logger.Warn("audit incomplete; the next one runs on schedule", "err", err)
	} else {
		t.status.audited(diverged)
	}
	t.answer(AuditResult{Target: t.name, Revision: r.RV, Objects: r.Objects, Divergences: diverged, Mismatches: mismatches(r, t.clients.Config.Host), Err: err})
}

func (t *auditor) answer(r AuditResult) {
	for _, waiting := range t.waiting {
		waiting <- r // has room for one
	}
	t.waiting = nil
}

// abandonAudit ends what the end of the watch has overtaken. An audit that was due
// begins again with the next watch.
func (t *auditor) abandonAudit() {
	if t.running != nil {
		t.logger.Info("watch ended during an audit; restarting the audit",
			"count", t.running.Objects, "differing", t.running.Differing())
		t.running.Stop()
		t.running = nil
		if t.timing.audit > 0 {
			t.due = time.Now()
		}
	}
	t.answer(AuditResult{Target: t.name, Err: errAbandoned})
}
