package dynwatch

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/checkpoint"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// timing holds the periods of a target's loop.
type timing struct {
	listwatch.Timing
	catalog.Periods
	// staleTold is how long a target must be stale before it is told: a watch that is
	// opened anew, as quiet ones are all the time, is nobody's business.
	staleTold time.Duration
	// audit is the time from one audit to the next, give or take a quarter; 0 for
	// none.
	audit time.Duration
	// clock tells when objects fall due to be announced anew.
	clock func() time.Time
}

func defaultTiming() timing {
	return timing{
		Timing: listwatch.Timing{
			Silence: 3 * time.Minute, Reach: 2 * time.Minute, Tick: 15 * time.Second,
			Backoff: 200 * time.Millisecond, BackoffCap: 30 * time.Second, WaitingCap: 5 * time.Second, DeniedCap: 5 * time.Minute,
		},
		staleTold: 10 * time.Second,
		Periods:   catalog.Periods{Noticed: time.Minute, First: 100 * time.Millisecond, Most: time.Second, Lasting: 30 * time.Second, Unserved: 10 * time.Second, Withdrawn: 10 * time.Minute},
		audit:     time.Hour, clock: time.Now,
	}
}

// target is one resource, in all namespaces or in one, and the loop that keeps
// its events coming. All but status and what a Writer allows belongs to the goroutine of run.
type target struct {
	*sweeper
	losses      *reconciler
	namespaces  *namespacer
	audits      *auditor
	resnapshots *resnapshotter
	redactor    *frame.Redactor
	// served notifies the target when what is served may have changed, and looks are
	// what follows.
	served *catalog.Watcher
	nudge  *catalog.Notice
	looks  looks
	// openings give turns to targets that open their watch; opening ends this target's
	// turn, and is nil if it has none.
	openings *kube.Openings
	opening  func()
	// offered is what the catalog says about a wildcard's resource, until it is used.
	offered *catalog.Resolved
	runs    *event.Runs
	// list is the first list, until it is complete.
	list firstList
	// absence is what is known of the resource while discovery does not list it.
	absence catalog.Absence
	// unlisted: discovery did not list the resource since it was resolved last.
	unlisted bool
	// failing is since when the version brings only server errors.
	failing failing
	// closedSince is when the first error followed the last open watch, zero while one
	// is open.
	closedSince time.Time
	// formerly keeps the former objects while the target does not run.
	formerly *recovery.Archive
	// unwatched: since a watch was open last, other things than the resource's being
	// denied have kept one from being opened. What has come since is not known.
	unwatched bool
	// suspect: the watch was opened because the one before fell silent.
	suspect bool
	// listed is when a list was equal to the index last.
	listed time.Time
	// bookmarked: the watch has brought a bookmark.
	bookmarked bool
	// untoldSince is since when it is not known whether the resource has an entry
	// already.
	untoldSince time.Time
	// stateTold is the last state that the log has.
	stateTold State
	// inquiries ask for what was announced: see [Manager.Known].
	inquiries chan chan Known
}

func newTarget(s spec, m *Manager) *target {
	options := &m.options
	f := &feed{
		spec: s, name: s.name(), options: options, clients: m.clients, timing: m.timing, limits: m.limits,
		logger: options.Logger.With("target", s.name()), status: newStatus(s), index: index.New(),
		position:   position{ended: make(map[string]uint64)},
		rejections: make(map[string]uint64), former: m.formerly.Take(s.name()),
		coverage: selection.NewCoverage(s.namespaces, m.namespaces), marks: checkpoint.NewTimer(),
	}
	f.Writer = emit.New(emit.Options{
		Append: f.append, LastInLog: options.Log.Last, LogKeeps: options.LogKeeps, Meter: f.status, Logger: f.logger, Owners: m.owners,
		Cluster: options.Cluster, Target: f.name, Namespace: s.namespace, Index: f.index,
		Wanted: schema.GroupVersionResource{Group: s.group, Version: s.version, Resource: s.resource},
	})
	f.await.left = f.limits.patience
	f.resetPause()
	common := &sweeper{decider: &decider{feed: f}}
	t := &target{
		sweeper: common, losses: &reconciler{sweeper: common}, namespaces: &namespacer{sweeper: common},
		audits: newAuditor(common), resnapshots: newResnapshotter(common),
		redactor: m.redactor, served: m.served, nudge: m.served.Subscribe(s.groupResource()), looks: newLooks(),
		openings: m.openings, runs: &m.runs, formerly: m.formerly, inquiries: make(chan chan Known),
	}
	t.namespaces.interrupt = t.audits.abandonAudit
	t.checkpoint = t.markOfNow
	t.reshape(s)
	return t
}

// run keeps the target going until ctx ends or the log refuses events.
func (t *target) run(ctx context.Context) {
	defer t.served.Unsubscribe(t.spec.group, t.nudge)
	defer t.coverage.Leave()
	reason := ""
	defer t.endOpening()
	for ctx.Err() == nil {
		t.beginOpening(ctx)
		err := t.advance(ctx)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, errRolledBack) {
			continue // the next step is a full reconcile
		}
		if err != nil && !errors.Is(err, emit.ErrLog) {
			err = t.explainForbidden(ctx, err)
		}
		if err != nil && !errors.Is(err, emit.ErrLog) {
			if !errors.Is(err, kube.ErrNotServed) {
				t.status.failures.Add(1)
			}
			err = t.fail(ctx, err)
		}
		if errors.Is(err, emit.ErrLog) && ctx.Err() == nil {
			reason = err.Error()
			t.logger.Error("journal refused events; target stopped", "err", err)
			break
		}
	}
	t.formerly.Keep(t.name, t.former)
	if reason == "" {
		t.markLast()
	}
	t.resnapshots.endReannouncing()
	t.setState(Stopped, reason)
}

// advance does what comes next for the target and returns when that is over: nil
// if the loop should go on at once, an error if it should pause first.
func (t *target) advance(ctx context.Context) error {
	t.status.beatNow()
	switch {
	case !t.restored:
		return t.restore(ctx)
	case t.source == nil:
		return t.resolve(ctx)
	case t.spec.namespaces.Selector != "" && !t.coverage.Known:
		return t.awaitNamespaces(ctx)
	case t.dropped.unsifted:
		return t.sift(ctx)
	case !t.status.synced.Load():
		return t.snapshot(ctx)
	case t.lost != nil && t.lost.Phase == recovery.Reconciling:
		return t.losses.reconcile(ctx)
	default:
		return t.follow(ctx)
	}
}

// resolve finds the resource and makes its source.
func (t *target) resolve(ctx context.Context) error {
	r, err := t.discover(ctx)
	err = t.settleTwin(err)
	if errors.Is(err, kube.ErrNotServed) {
		t.unlisted = true
		if unsure := t.clients.Identity.Check(ctx); unsure != nil {
			return unsure
		}
		if err = t.endUnserved(ctx, err); errors.Is(err, emit.ErrLog) {
			return err
		}
	} else {
		if err == nil && t.unlisted {
			t.unlisted = false
			t.resetPause() // it has grown with the time in which the resource was not served
		}
		t.absence = catalog.Absence{}
		t.status.gone.Store(false)
	}
	notServed := errors.Is(err, kube.ErrNotServed) && !kube.IsUnconfirmed(err)
	if t.firstOp == "" {
		switch {
		case err == nil, errors.Is(err, catalog.ErrUnusable):
			t.firstOp = event.Snapshot
		case notServed:
			t.firstOp = event.Added
		}
	}
	if err == nil || notServed || errors.Is(err, catalog.ErrUnusable) || apierrors.IsForbidden(err) {
		t.status.looked.Store(true)
	}
	if err != nil {
		return err
	}
	s, err := t.spec.source(r, t.clients, t.redactor, t.Shape, t.coverage.Filter)
	if err == nil {
		t.use(s, r)
	}
	return err
}
