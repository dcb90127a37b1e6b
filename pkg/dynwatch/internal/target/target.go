package target

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/owner"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// Options are what a target is made of.
type Options struct {
	Spec    Spec
	Name    string // of the spec
	Cluster string
	Log     journal.Log
	// StoreRejected stores an object that cannot be emitted.
	StoreRejected func(ctx context.Context, bad *frame.Malformed) error
	Clients       *kube.Clients
	Owners        *owner.Finder
	Namespaces    *selection.Namespaces
	Timing        Timing
	Limits        Limits
	Logger        *slog.Logger
	Redactor      *frame.Redactor
	// Served notifies targets when what is served may have changed.
	Served *catalog.Watcher
	// Openings limit how many targets open their watch at a time.
	Openings *kube.Openings
	Runs     *event.Runs
	// Formerly keeps the deleted objects of targets that do not run.
	Formerly *recovery.Archive
}

// Target is one resource, in all namespaces or in one, and the loop that keeps its events coming.
// Status, Shape and Reshape may be used by any goroutine at any time, Resnapshots, Audits.Requests and
// Inquiries while the loop runs; all else belongs to the goroutine of Run.
type Target struct {
	Options
	// Writer writes index and log.
	*emit.Writer
	Status *status.Status
	Index  *index.Index
	position
	// restored: the index is what the log says. marked is the last checkpoint there.
	restored bool
	marked   checkpoint
	Marks    markTimer
	// Coverage are the namespaces whose objects the target announces.
	Coverage selection.Coverage
	// flipGap is what namespaces lack that are matched or unmatched together.
	flipGap event.GapInfo

	// Source is nil until the resource is resolved.
	Source *listwatch.Source
	discovery
	// Failures are the requests that fail, and Pause follows an error of the API server.
	failures listwatch.Failures
	pause    wait.Backoff
	// opening ends this target's turn to open its watch, and is nil if it has none.
	opening func()

	// First is the first list, until it is complete.
	firstRun  firstRun
	firstList firstList
	// FirstOp is the operation of objects in the first list: they existed when
	// informd first asked for them, or the resource came later. Empty until it asked.
	FirstOp event.Op
	// Lost is history that the API server no longer has, until it is recovered.
	lost *recovery.Lost
	// reconciles counts the losses of history since the watch last brought anything in order.
	reconciles int
	// Undecided are deletions that could not be distinguished from leaving the selection yet.
	undecided []undecided
	// Former are objects that were announced as deleted and can return.
	former *recovery.Deleted
	// Departed are the keys of objects that had left the selection before the restart. It is nil
	// once the watch is open: what is selected cannot change without it then.
	departed map[string]struct{}
	// rejections are the revisions of rejected objects, by UID, so that
	// each list does not reject them again.
	rejections map[string]uint64
	// Sweeps numbers the sweeps, for the marks in the index.
	sweeps uint32
	// HeldBack: change filters have held back states. The log does not know which.
	heldBack bool
	// rollback is the number of the last rollback of any target that was considered, and
	// Rollback is closed at the next one.
	rollback  uint64
	rollbacks <-chan struct{}

	// Head is the resource's revision when the watch was opened.
	head uint64
	// Progress is how far the watches have come.
	progress listwatch.Progress
	// Stalled is when an append ended that took long: the watch has perhaps brought
	// more by then than was read of it.
	stalled time.Time
	// suspect: the watch was opened because the one before fell silent.
	suspect bool
	// comparedAt is when a list was equal to the index last.
	comparedAt time.Time
	// bookmarked: the watch has brought a bookmark.
	bookmarked bool
	Audits     audits

	// Resnapshots are requests for re-snapshots, of which one is in progress at a time, and again says
	// when to list once more for it.
	Resnapshots chan ResnapshotRequest
	resnapshot  *resnapshot
	again       *time.Timer
	// boundsMissing is the run of the re-snapshot that emits the first begin and synced events of the
	// target, 0 if the log has them.
	boundsMissing uint64
	// Inquiries are functions that the loop calls while the log has all events of the index.
	Inquiries chan func(*Target)

	// shown is the state that was logged last, since when, and stateTold the last one that the log has.
	shown      status.State
	shownSince time.Time
	stateTold  status.State
}

// New returns a target whose loop does not run yet.
func New(o Options) *Target {
	t := &Target{
		Options: o, Status: status.New(o.Spec.Version), Index: index.New(), position: position{ended: make(map[string]uint64)},
		Marks: newMarkTimer(), Coverage: selection.NewCoverage(o.Spec.Namespaces, o.Namespaces), discovery: newDiscovery(&o),
		failures: listwatch.Failures{After: o.Timing.Failing}, former: o.Formerly.Take(o.Name), rejections: make(map[string]uint64),
		rollback: o.Clients.Rollbacks.Considered(o.Name), Audits: newAudits(o.Timing.AuditEvery),
		Resnapshots: make(chan ResnapshotRequest), again: time.NewTimer(time.Hour), Inquiries: make(chan func(*Target)),
	}
	t.again.Stop()
	t.Writer = emit.New(emit.Options{
		Append: t.append, Forget: t.forget, Log: o.Log, Meter: t.Status, Logger: o.Logger, Owners: o.Owners,
		Cluster: o.Cluster, Target: o.Name, Namespace: o.Spec.Namespace, Index: t.Index,
		Wanted: schema.GroupVersionResource{Group: o.Spec.Group, Version: o.Spec.Version, Resource: o.Spec.Resource},
	})
	t.resetPause()
	t.Reshape(o.Spec.Shown(), o.Redactor)
	return t
}

// Run keeps the target going until ctx ends or the log refuses events.
func (t *Target) Run(ctx context.Context) {
	defer t.unsubscribe()
	defer t.Coverage.Leave()
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
				t.Status.Failures.Add(1)
			}
			err = t.fail(ctx, err)
		}
		if errors.Is(err, emit.ErrLog) && ctx.Err() == nil {
			reason = err.Error()
			t.Logger.Error("journal refused events; target stopped", "err", err)
			break
		}
	}
	t.Formerly.Keep(t.Name, t.former)
	t.keepRollbacks()
	if reason == "" {
		t.markLast()
	}
	t.endResnapshot(errInterrupted)
	t.setState(status.Stopped, reason)
}

// advance does what comes next for the target and returns when that is over: nil
// if the loop should go on at once, an error if it should pause first.
func (t *Target) advance(ctx context.Context) error {
	t.Status.Alive()
	switch {
	case !t.restored:
		return t.restore(ctx)
	case t.Source == nil:
		return t.resolve(ctx)
	case t.Spec.Namespaces.Selector != "" && !t.Coverage.Known:
		return t.awaitNamespaces(ctx)
	case !t.Status.Synced.Load():
		return t.snapshot(ctx)
	case t.lost != nil && t.lost.Phase == recovery.Reconciling:
		return t.reconcile(ctx)
	default:
		return t.follow(ctx)
	}
}

// awaitNamespaces begins with the namespaces that match, or waits until there may be a list
// of them.
func (t *Target) awaitNamespaces(ctx context.Context) error {
	if begun, err := t.beginNamespaces(ctx); begun || err != nil {
		return err
	}
	t.endOpening()
	for {
		t.Status.Alive()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.Coverage.Changed:
			return nil
		case <-time.After(t.Timing.Tick):
		}
	}
}
