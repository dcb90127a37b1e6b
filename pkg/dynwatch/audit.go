package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// An audit compares the index with a list while the watch stays open. Nothing
// should ever come of it: what it finds is a frame that the API server, or
// something before it, has left out. A list is of one revision and the index
// moves on, so what differs is a suspect only, until the watch has passed the
// list's revision and a look at the object by name says the same.

const (
	// auditPage is how many listed objects are compared at a time, between frames.
	auditPage = 500
	// auditUnseen is how many objects are read to see whether the process before this
	// one has held their state back. The others wait for the next audits.
	auditUnseen = 100
	// auditLines is how many divergences of one audit are logged by name.
	auditLines = 20
)

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

// audits is a target's auditing.
type audits struct {
	// clean is the newest revision at which the index was seen to be what the API
	// server's list held, or where the target began.
	clean uint64
	// began is the revision up to which the process before this one has come.
	began uint64
	// due is when the next one is.
	due time.Time
	// requests are audits on demand, waiting those that were taken up.
	requests chan chan<- AuditResult
	waiting  []chan<- AuditResult
	running  *audit
}

// newAudits spreads the first audits of all targets over the interval.
func newAudits(interval time.Duration) audits {
	a := audits{requests: make(chan chan<- AuditResult)}
	if interval > 0 {
		a.due = time.Now().Add(rand.N(interval)) //nolint:gosec // jitter, not a secret
	}
	return a
}

// audit is one that is under way.
type audit struct {
	// number marks the entries that the list holds.
	number uint32
	// pages is what was listed; it is closed at the end of the list, and rv and
	// err are set then.
	pages chan []listwatch.Listed
	rv    uint64
	err   error
	stop  func()

	objects  int
	sample   *sample
	repaired int
	listed   bool // to its end
	suspects map[string]listwatch.Listed
	// more counts suspects beyond what is kept, unseen those of auditUnseen.
	more, unseen int
	// stand is the cursor when a judgement was last thought of, since when.
	stand uint64
	since time.Time
}

// page is where the next page of a list that is under way comes from; never, if
// none is.
func (a *audits) page() <-chan []listwatch.Listed {
	if a.running == nil || a.running.listed {
		return nil
	}
	return a.running.pages
}

// audit begins an audit if one is wanted and the index is whole.
func (t *target) audit(ctx context.Context) {
	a := &t.audits
	wanted := len(a.waiting) > 0 || !a.due.IsZero() && !time.Now().Before(a.due)
	if !wanted || a.running != nil || t.lost != nil || len(t.undecided)+len(t.dropped.doubtful) > 0 {
		return
	}
	if t.timing.audit > 0 {
		a.due = time.Now().Add(t.timing.audit*3/4 + rand.N(t.timing.audit/2+1)) //nolint:gosec // jitter
	}
	ctx, cancel := context.WithCancel(ctx)
	t.sweeps++
	r := &audit{number: t.sweeps, pages: make(chan []listwatch.Listed), suspects: make(map[string]listwatch.Listed), sample: t.newSample()}
	var lister sync.WaitGroup
	source := t.source // the target may move to another one meanwhile
	lister.Go(func() { r.list(ctx, source) })
	r.stop = func() {
		cancel()
		lister.Wait()
	}
	a.running = r
}

// list sends the pages of a list at the newest revision, and compares a sample of it with
// etcd.
func (a *audit) list(ctx context.Context, source *listwatch.Source) {
	defer close(a.pages)
	if a.err = a.listPages(ctx, source); a.err == nil {
		a.err = a.sample.compare(ctx, source, a.rv)
	}
	if a.err == nil {
		a.err = source.Clients.Identity.Check(ctx)
	}
}

func (a *audit) listPages(ctx context.Context, source *listwatch.Source) error {
	page := make([]listwatch.Listed, 0, auditPage)
	send := func() error {
		select {
		case a.pages <- page:
			page = make([]listwatch.Listed, 0, auditPage)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	item := func(m listwatch.Listed) error {
		a.sample.take(m)
		page = append(page, m)
		if len(page) < auditPage {
			return nil
		}
		return send()
	}
	rv, err := source.Revision(ctx)
	if err != nil {
		return err
	}
	a.rv, err = source.ListMetadata(ctx, rv, item)
	if listwatch.Unsupported(err) {
		a.rv, err = source.ListMetadata(ctx, 0, item)
	}
	if err != nil {
		return err
	}
	return send()
}

// auditPage compares one page with the index, and what the list lacks once it is
// over.
func (t *target) auditPage(page []listwatch.Listed, more bool) {
	a := t.audits.running
	for _, d := range page {
		a.objects++
		e := t.index.Get(d.Namespace, d.Name)
		if e != nil {
			e.Sweep = a.number
		}
		if e != nil && t.index.IsUID(e, d.UID) && t.index.Newest(e) < d.RV && d.RV <= t.audits.began && t.mayHaveHeldBack(e, d.RV) {
			if a.unseen++; a.unseen > auditUnseen {
				continue
			}
		}
		if e == nil || t.index.Newest(e) < d.RV || !t.index.IsUID(e, d.UID) && e.RV <= d.RV ||
			t.index.Contradicts(e, d.UID, d.RV, math.MaxUint64) {
			t.suspectOf(d)
		}
	}
	if more {
		return
	}
	a.listed = true
	if a.err != nil {
		return
	}
	for e := range t.index.All() {
		if e.Sweep != a.number && e.RV <= a.rv {
			t.suspectOf(listwatch.Listed{Namespace: t.index.Namespace(e), Name: t.index.Name(e)})
		}
	}
}

func (t *target) suspectOf(d listwatch.Listed) {
	a := t.audits.running
	if len(a.suspects) >= t.limits.suspects {
		a.more++
		return
	}
	a.suspects[index.Key(d.Namespace, d.Name)] = d
}

// conclude ends the audit that is under way once its list is there and the watch
// has passed it. It returns errDiverged if a reconcile must follow.
func (t *target) conclude(ctx context.Context) error {
	a := t.audits.running
	if a == nil || !a.listed {
		return nil
	}
	if err := t.repairAll(ctx, a); err != nil {
		return err
	}
	if len(a.suspects)+len(a.sample.pending) > 0 && !t.canJudge(a) {
		return nil
	}
	diverged, err := t.verdict(ctx, a)
	if errors.Is(err, errRolledBack) {
		t.endAudit(max(diverged, 1), nil)
		return err
	}
	if errors.Is(err, errLog) {
		return err
	}
	t.endAudit(diverged+a.repaired, err)
	switch {
	case err == nil && diverged > 0:
		t.logger.Error("audit found divergence; reconciling", "count", diverged, "from", t.audits.clean,
			"next", "report it with the log lines of the objects")
		t.lost = &lost{phase: reconciling, from: t.audits.clean, reason: reasonAudit}
		return errDiverged
	case err == nil:
		t.audits.clean = max(t.audits.clean, min(a.rv, t.resume()))
	}
	return nil
}

// canJudge reports whether the index is what the watch has told up to the cursor,
// and the cursor is past the list. More objects can end at the cursor than have
// yet: then the cursor must move on, or stand for a while.
func (t *target) canJudge(a *audit) bool {
	if t.cursor < a.rv || len(t.undecided) > 0 {
		t.progress.Expect(t.cursor, a.rv)
		return false
	}
	if a.stand != t.cursor {
		a.stand, a.since = t.cursor, time.Now()
	}
	return t.resume() == t.cursor || time.Since(a.since) >= t.timing.Tick
}

// verdict returns how many of the suspects diverge.
func (t *target) verdict(ctx context.Context, a *audit) (diverged int, err error) {
	if a.err != nil {
		return 0, a.err
	}
	for _, d := range a.suspects {
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
	if diverged == 0 && a.more > 0 {
		return 0, fmt.Errorf("%d objects differed during the audit: too many to check", len(a.suspects)+a.more)
	}
	return diverged, nil
}

// diverges reports whether a suspect is one still: neither has a frame brought the
// index to the list's state or beyond it, nor does etcd say that the index is
// right as of now.
func (t *target) diverges(ctx context.Context, a *audit, d listwatch.Listed) (bool, error) {
	t.status.beatNow()
	e := t.index.Get(d.Namespace, d.Name)
	older := t.index.Contradicts(e, d.UID, d.RV, a.rv)
	switch {
	case e != nil && (e.RV > a.rv || t.index.IsUID(e, d.UID) && t.index.Newest(e) >= d.RV && !older):
		return false, nil
	case e == nil && d.RV == 0:
		return false, nil
	}
	o, there, err := t.source.MatchAt(ctx, d.Namespace, d.Name, t.cursor)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		// Only the present can be seen. It must confirm what the list said.
		o, there, err = t.source.MatchAt(ctx, d.Namespace, d.Name, 0)
		if err == nil && (there != (d.RV != 0) || there && (o.UID != d.UID || o.ResourceVersion != d.RV)) {
			return false, nil
		}
	}
	if _, bad := errors.AsType[*frame.Malformed](err); bad {
		return false, nil // it was rejected, and is in no stream
	}
	if err == nil && there {
		err = t.checkRead(ctx, e, listwatch.Listed{Namespace: d.Namespace, Name: d.Name, UID: o.UID, RV: o.ResourceVersion})
	}
	if err != nil || e == nil {
		return there, err
	}
	return t.differs(e, &o, there), nil
}

// differs reports whether the index holds another state of an object than etcd does.
func (t *target) differs(e *index.Entry, o *frame.Object, there bool) bool {
	if !there || !t.index.IsUID(e, o.UID) {
		return true
	}
	if o.ResourceVersion > e.RV && t.unchanged(e, o) {
		t.heldBack(e, o.ResourceVersion) // by the process before this one
	}
	return o.ResourceVersion != t.index.Newest(e)
}

// endAudit tells whoever waits how the audit went.
func (t *target) endAudit(diverged int, err error) {
	a := &t.audits
	r := a.running
	r.stop()
	a.running = nil
	if err != nil {
		t.logger.Warn("audit incomplete; the next one runs on schedule", "err", err)
	} else {
		t.status.audited(diverged)
	}
	a.answer(AuditResult{Target: t.name, Revision: r.rv, Objects: r.objects, Divergences: diverged, Mismatches: r.mismatches(t.clients.Config.Host), Err: err})
}

func (a *audits) answer(r AuditResult) {
	for _, waiting := range a.waiting {
		waiting <- r // has room for one
	}
	a.waiting = nil
}

// abandonAudit ends what the end of the watch has overtaken. An audit that was due
// begins again with the next watch.
func (t *target) abandonAudit() {
	a := &t.audits
	if a.running != nil {
		t.logger.Info("watch ended during an audit; restarting the audit",
			"count", a.running.objects, "differing", len(a.running.suspects)+a.running.more)
		a.running.stop()
		a.running = nil
		if t.timing.audit > 0 {
			a.due = time.Now()
		}
	}
	a.answer(AuditResult{Target: t.name, Err: errAbandoned})
}
