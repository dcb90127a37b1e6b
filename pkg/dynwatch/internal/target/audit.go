package target

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
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
	every    time.Duration
	status   *status.Status
	logger   *slog.Logger
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
	if t.position.resume() < a.head { // of the revision at the position the watch may have more to bring
		t.liveness.progress.Expect(t.position.rv, a.head)
		return
	}
	if a.every > 0 {
		a.due = time.Now().Add(a.every*3/4 + rand.N(a.every/2+1)) //nolint:gosec // jitter
	}
	t.Objects.sweeps++
	a.running = &auditRun{number: t.Objects.sweeps, position: t.position.resume(), ended: maps.Clone(t.position.ended)}
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
		return lossError{of: &loss{reason: reasonAudit, from: t.position.clean, audited: audited}}
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

const (
	// batchSize is how many listed objects are compared at a time, between frames.
	batchSize = 500
	// maxEnded bounds the ends of objects that are kept. Others count as differences, until they are compared again.
	maxEnded = 10_000
)

// auditRun is an audit that is under way. All but the list until it is complete belongs to the loop of the target.
type auditRun struct {
	// number marks the entries that the list holds.
	number uint32
	// at is the revision of the list, position the one from which a watch would have resumed at the beginning. At is 0
	// for the newest revision, until the first page is there.
	at, position uint64
	// pages is what was listed; it is closed at the end of the list, and err, why that failed, is set then.
	pages chan []listwatch.Listed
	err   error
	// stop ends the list and waits for its end.
	stop func()

	// objects is how many the list held so far, differing how many of them, and of those that it lacks, differ from the
	// index.
	objects, differing int
	// complete: the list was compared to its end.
	complete bool
	// ended are the revisions of ends behind the position at which the audit began, by name.
	ended map[string]uint64
}

// start lists the objects of a source.
func (r *auditRun) start(ctx context.Context, source *listwatch.Source) {
	ctx, cancel := context.WithCancel(ctx)
	r.pages = make(chan []listwatch.Listed)
	var lister sync.WaitGroup
	lister.Go(func() {
		defer close(r.pages)
		if r.err = r.list(ctx, source); r.err == nil {
			r.err = source.Clients.Identity.Check(ctx)
		}
	})
	r.stop = func() {
		cancel()
		lister.Wait()
	}
}

// next is where the next page comes from; nil if there is none.
func (r *auditRun) next() <-chan []listwatch.Listed {
	if r == nil || r.complete {
		return nil
	}
	return r.pages
}

// list sends the pages of a list. An API server that finds its own cache wrong (feature DetectCacheInconsistency, every
// 5 to 8 minutes) serves lists at an exact revision from etcd from then on.
func (r *auditRun) list(ctx context.Context, source *listwatch.Source) (err error) {
	page := make([]listwatch.Listed, 0, batchSize)
	send := func() error {
		select {
		case r.pages <- page:
			page = make([]listwatch.Listed, 0, batchSize)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if r.at == 0 {
		if r.at, err = source.Revision(ctx); err != nil {
			return err
		}
	}
	_, err = source.ListMetadata(ctx, &listwatch.Listing{At: r.at}, func(m listwatch.Listed) error {
		if page = append(page, m); len(page) < batchSize {
			return nil
		}
		return send()
	})
	if err != nil {
		return err
	}
	return send()
}

// compare compares one page of an audit with the index, and what the list lacks once it is over.
func (r *auditRun) compare(page []listwatch.Listed, more bool, x *index.Index, f *selection.Filter, rejected *rejections) {
	for _, d := range page {
		r.objects++
		e := x.Get(d.Namespace, d.Name)
		if e != nil {
			e.Sweep = r.number
		}
		k := x.Known(e, d.UID)
		same := k.Object == decide.Same && k.Newest == d.RV
		later := k.Newest > r.at || r.ended[index.Key(d.Namespace, d.Name)] > r.at // than the list
		readable := d.UID != "" && d.RV != 0                                       // else the object is in the dead letters of the source
		if !same && !later && readable && !rejected.has(d.UID, d.RV) {
			r.differing++
		}
	}
	if more {
		return
	}
	if r.complete = true; r.err != nil {
		return
	}
	for e := range x.All() { // those of a namespace that leaves are in no list
		if e.Sweep != r.number && e.RV <= r.at && f.Covers(x.Namespace(e)) {
			r.differing++
		}
	}
}

// end notes that the watch has brought the end of an object at revision rv. It does nothing without a run.
func (r *auditRun) end(namespace, name string, rv uint64) {
	if r != nil && len(r.ended) < maxEnded {
		r.ended[index.Key(namespace, name)] = rv
	}
}
