package target

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
)

// An audit compares the index with a list of metadata while the watch stays open. Nothing should ever come of it:
// what it finds is a frame that the API server, or something before it, has left out. The list is of exactly the
// position, so that all that the watch brings meanwhile is newer. An audit on demand lists the newest revision; if that
// differs, another list follows at the position once the watch has passed it. What still differs is compared again in a
// recovery: etcd confirms it there, and a gap follows what is announced.

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
	// began is the revision up to which the process before this one has come.
	began uint64
	// due is when the next one is.
	due time.Time
	// Requests are audits on demand, waiting those that were taken up. Head is the revision that the watch has to pass
	// before the next list, 0 if there is none.
	Requests chan chan<- AuditResult
	waiting  []chan<- AuditResult
	head     uint64
	running  *auditRun

	every  time.Duration
	status *status.Status
	logger *slog.Logger
}

// newAudits spreads the first audits of all targets over the interval.
func newAudits(interval time.Duration, st *status.Status, logger *slog.Logger) audits {
	a := audits{Requests: make(chan chan<- AuditResult), every: interval, status: st, logger: logger}
	if interval > 0 {
		a.due = time.Now().Add(rand.N(interval)) //nolint:gosec // jitter, not a secret
	}
	return a
}

// beginAudit begins an audit if one is wanted, and no re-snapshot is in progress, which marks entries, too.
func (t *Target) beginAudit(ctx context.Context) {
	a := &t.Audits
	asked := len(a.waiting) > 0
	if !asked && (a.due.IsZero() || time.Now().Before(a.due)) || a.running != nil || t.Resnapshots.running != nil {
		return
	}
	if t.position.rv < a.head {
		t.liveness.progress.Expect(t.position.rv, a.head)
		return
	}
	if a.every > 0 {
		a.due = time.Now().Add(a.every*3/4 + rand.N(a.every/2+1)) //nolint:gosec // jitter
	}
	t.sweeps++
	a.running = &auditRun{number: t.sweeps, position: t.position.resume(), ended: maps.Clone(t.position.ended)}
	if !asked || a.head != 0 {
		a.running.at = t.position.resume()
	}
	a.running.start(ctx, t.Discovery.Source)
}

// concludeAudit ends the audit that is under way once its list is complete. It returns a loss if that has shown a
// difference.
func (t *Target) concludeAudit(ctx context.Context) error {
	if len(t.Audits.waiting) > 0 {
		t.beginAudit(ctx)
	}
	a := t.Audits.running
	switch {
	case a == nil || !a.complete:
		return nil
	case a.err == nil && a.differing > 0 && a.at > a.position: // the watch may have yet to bring it
		t.Audits.stop()
		t.Audits.head = a.at
		return nil
	case listwatch.Expired(a.err) && t.Audits.head == 0: // nothing has come since etcd has compacted the position
		if t.Audits.head, a.err = t.Discovery.Source.Revision(ctx); a.err == nil {
			t.Audits.stop()
			t.Audits.due = time.Now()
			return nil
		}
	case a.err == nil && a.differing > 0:
		t.Audits.stop()
		audited := AuditResult{Revision: a.at, Objects: a.objects}
		return lossError{&loss{reason: reasonAudit, from: t.position.clean, audited: audited}}
	}
	t.Audits.stop()
	if a.err == nil {
		t.position.clean = max(t.position.clean, min(a.at, t.position.resume()))
	}
	t.Audits.done(AuditResult{Revision: a.at, Objects: a.objects, Err: a.err})
	return nil
}

// compareAudited compares what an audit has found once more. An error ends the audit without an outcome, unless
// something was announced.
func (t *Target) compareAudited(ctx context.Context, l *loss) (state, error) {
	next, err := t.recoverAt(ctx, l, t.position.rv)
	switch {
	case isLoss(err): // a rollback
		t.Audits.divergence(l, 1)
	case l.found > 0, errors.Is(err, emit.ErrLog), ctx.Err() != nil:
	default:
		if l.audited.Err = err; err != nil {
			next, err = following{}, nil
		}
		t.Audits.done(l.audited)
	}
	return next, err
}

// divergence ends an audit that has found something.
func (a *audits) divergence(l *loss, count int) {
	a.logger.Error("audit found divergence", "count", count, "from", l.from,
		"next", "report it with the log lines of the objects", "runbook", display.AlertRunbook("InformdAuditDivergence"))
	l.audited.Divergences = count
	a.done(l.audited)
}

// diverged counts an object that is announced because of an audit, whose loss is recovered.
func (a *audits) diverged(l *loss, id index.ID, rv uint64) {
	if l.found++; l.found <= auditLines {
		a.logger.Error("audit found a divergent object",
			"namespace", id.Namespace, "name", id.Name, "resource_version", rv, "uid", id.UID)
	}
}

// done answers the callers that wait for an audit.
func (a *audits) done(r AuditResult) {
	if r.Err != nil {
		a.logger.Warn("audit incomplete; the next one runs on schedule", "err", r.Err)
	} else {
		a.status.AuditDone(r.Divergences)
	}
	a.answer(r)
}

func (a *audits) answer(r AuditResult) {
	for _, waiting := range a.waiting {
		waiting <- r // has room for one
	}
	a.waiting, a.head = nil, 0
}

// stop ends the list of an audit, if there is one.
func (a *audits) stop() {
	if a.running != nil {
		a.running.stop()
		a.running = nil
	}
}

// abandon ends what the end of the watch, or a namespace, has overtaken. An audit that was due begins again after
// a pause: where Namespaces come and go all the time, none might come to its end.
func (a *audits) abandon() {
	if a.running != nil {
		a.logger.Info("watch ended during an audit; restarting the audit", "count", a.running.objects)
		a.stop()
		if a.every > 0 {
			a.due = time.Now().Add(a.every / 4)
		}
	}
	a.answer(AuditResult{Err: ErrAbandoned})
}
