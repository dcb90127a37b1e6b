package dynwatch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

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
	// Writer writes index and log.
	*emit.Writer
	spec     spec
	name     string // of the spec
	options  *Options
	clients  *kube.Clients
	timing   timing
	logger   *slog.Logger
	status   *status
	pause    wait.Backoff
	redactor *frame.Redactor
	// served nudges the target when what is served may have changed, and looks are
	// what follows.
	served *catalog.Watcher
	nudge  *catalog.Notice
	// openings give turns to targets that open their watch; opening ends this target's
	// turn, and is nil if it has none.
	openings *kube.Openings
	opening  func()
	// offered is what the catalog says about a wildcard's resource, until it is used.
	offered *catalog.Resolved
	looks   looks
	runs    *event.Runs

	// source is nil until the resource is resolved.
	source *listwatch.Source
	index  *index.Index
	// cursor is the revision up to which everything was appended; see resume. Ahead is
	// the newest that was gathered and is not appended yet, 0 if nothing is.
	cursor, ahead uint64
	// ended are the revisions of ends at and behind the cursor, by key: see resume
	// and resumeAt.
	ended map[string]uint64
	// dropped are objects that an edit of the selectors has dropped.
	dropped dropped
	// undecided are ends that could not be told from leaving the selection yet.
	undecided []undecided
	// first is the first list, until it is complete.
	first firstList
	// absence is what is known of the resource while discovery does not list it.
	absence catalog.Absence
	// unlisted: discovery did not list the resource since it was resolved last.
	unlisted bool
	// failing is since when the version brings nothing but errors of the server.
	failing failing
	// closedSince is when the first error followed the last open watch, zero while one
	// is open.
	closedSince time.Time
	// former are objects that were announced as deleted and can return; formerly keeps
	// them while the target does not run.
	former   *recovery.Deleted
	formerly *recovery.Archive
	// unwatched: since a watch was open last, other things than the resource's being
	// denied have kept one from being opened. What has come since is not known.
	unwatched bool
	// suspect: the watch was opened because the one before fell silent.
	suspect bool
	calm    calm
	// bookmarked: the watch has brought a bookmark.
	bookmarked bool
	// untoldSince is since when it is not known whether the resource has an entry
	// already.
	untoldSince time.Time
	// shown is the state that was logged last, stateTold the one that the log has.
	shown, stateTold State
	shownSince       time.Time
	// rejections are the revisions of objects that were rejected, by uid, so that
	// every list does not reject them anew.
	rejections map[string]uint64
	// firstOp is what the objects of the first list are: they existed when
	// informd first looked, or the resource came later. Empty until it looked.
	firstOp event.Op
	// reconciles counts the losses of history since the watch last brought anything
	// in order.
	reconciles int
	// lost is history that the API server no longer has, until it is made up for.
	lost *recovery.Lost
	// sweeps numbers the sweeps, for the marks in the index.
	sweeps uint32
	await  await
	limits limits
	audits audits
	again  reannouncing
	// relogs are the notices that the log was replaced: see relog.go.
	relogs chan relog
	// inquiries ask for what was announced: see [Manager.Known].
	inquiries chan chan Known
	// relost is the cursor at the last loss of the log's events, 0 before the first.
	relost uint64
	// progress is how far the watches have come.
	progress listwatch.Progress
	// coverage are the namespaces whose objects the target announces.
	coverage selection.Coverage

	// restored: the index is what the log says. marked is the last mark there.
	restored bool
	marked   checkpoint.Mark
	marks    checkpoint.Timer
}

func newTarget(s spec, m *Manager) *target {
	options := &m.options
	t := &target{
		spec: s, name: s.name(), options: options, clients: m.clients, timing: m.timing, limits: m.limits,
		logger: options.Logger.With("target", s.name()),
		status: newStatus(s), index: index.New(), ended: make(map[string]uint64), rejections: make(map[string]uint64),
		served: m.served, nudge: m.served.Subscribe(s.groupResource()), looks: newLooks(), redactor: m.redactor,
		openings: m.openings, formerly: m.formerly, relogs: make(chan relog, 1),
	}
	t.Writer = emit.New(emit.Options{
		Append: t.append, LastInLog: options.Log.Last, LogKeeps: options.LogKeeps, Meter: t.status, Logger: t.logger, Owners: m.owners,
		Cluster: options.Cluster, Target: t.name, Namespace: s.namespace, Index: t.index,
		Wanted: schema.GroupVersionResource{Group: s.group, Version: s.version, Resource: s.resource},
	})
	t.await.left = t.limits.patience
	t.runs, t.inquiries = &m.runs, make(chan chan Known)
	t.former = t.formerly.Take(t.name)
	t.reshape(s)
	t.audits = newAudits(t.timing.audit)
	t.again = newReannouncing(s, t.timing)
	t.coverage = selection.NewCoverage(s.namespaces, m.namespaces)
	t.marks = checkpoint.NewTimer()
	t.resetPause()
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
	t.endReannouncing()
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
		return t.reconcile(ctx)
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

// setCursor notes that everything up to rv was appended.
func (t *target) setCursor(rv uint64) {
	if rv != t.cursor {
		maps.DeleteFunc(t.ended, func(_ string, at uint64) bool { return at < rv })
		t.marks.Soon()
	}
	t.cursor = rv
	t.status.rv.Store(rv)
}

// resume is the revision to watch from. Revisions are not unique to an object:
// when a lease of etcd ends, all objects on it (core Events, up to 1,000) are
// deleted at one revision. A watch that was cut among them must begin before
// them, and those that were seen are remembered in ended until the next revision.
func (t *target) resume() uint64 {
	for _, at := range t.ended {
		if at == t.cursor {
			return t.cursor - 1
		}
	}
	return t.cursor
}

// forgetEnds notes that all that ended up to rv is known.
func (t *target) forgetEnds(rv uint64) {
	maps.DeleteFunc(t.ended, func(_ string, at uint64) bool { return at <= rv })
}

// endedAt is the revision at which a name that ended at or behind the cursor did
// so, 0 if none did.
func (t *target) endedAt(namespace, name string) uint64 {
	if len(t.ended) == 0 {
		return 0 // as nearly always: no key is to be made for every frame
	}
	return t.ended[index.Key(namespace, name)]
}
