package target

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/audit"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/feed"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/namespaces"
	"github.com/informd/informd/pkg/dynwatch/internal/reconcile"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/resolve"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/dynwatch/internal/sweep"
	"github.com/informd/informd/pkg/event"
)

// Target is one resource, in all namespaces or in one, and the loop that keeps
// its events coming. All but status and what a Writer allows belongs to the goroutine of Run.
type Target struct {
	*sweep.Sweeper
	Losses     *reconcile.Reconciler
	namespaces *namespaces.Follower
	Audits     *audit.Auditor
	Resolver   *resolve.Resolver
	// Openings give turns to targets that open their watch; opening ends this target's
	// turn, and is nil if it has none.
	openings *kube.Openings
	opening  func()
	runs     *event.Runs
	// list is the first list, until it is complete.
	list firstList
	// formerly keeps the former objects while the target does not run.
	formerly *recovery.Archive
	// suspect: the watch was opened because the one before fell silent.
	suspect bool
	// listed is when a list was equal to the index last.
	listed time.Time
	// bookmarked: the watch has brought a bookmark.
	bookmarked bool
	// stateTold is the last state that the log has.
	stateTold status.State
	// Resnapshots are requests for re-snapshots, of which one is in progress at a time, and again says
	// when to list once more for it.
	Resnapshots chan ResnapshotRequest
	resnapshot  *resnapshot
	again       *time.Timer
	// boundsMissing is the run of the re-snapshot that emits the first begin and synced events of the
	// target, 0 if the log has them.
	boundsMissing uint64
	// Inquiries are functions that the loop calls while the log has all events of the index.
	Inquiries chan func(*feed.Feed)
}

// Options are what a target is made of.
type Options struct {
	feed.Options
	Redactor *frame.Redactor
	Served   *catalog.Watcher
	// Openings limit how many targets open their watch at a time.
	Openings *kube.Openings
	Runs     *event.Runs
	Formerly *recovery.Archive
}

// New returns a target whose loop does not run yet.
func New(o Options) *Target {
	f := feed.New(o.Options)
	f.Former = o.Formerly.Take(o.Name)
	common := sweep.New(f)
	audits := audit.New(common)
	t := &Target{
		Sweeper: common, Losses: reconcile.New(common), namespaces: namespaces.New(common, audits.Abandon),
		Audits: audits, Resnapshots: make(chan ResnapshotRequest), again: time.NewTimer(time.Hour), Resolver: resolve.New(f, o.Redactor, o.Served),
		openings: o.Openings, runs: o.Runs, formerly: o.Formerly, Inquiries: make(chan func(*feed.Feed)),
	}
	t.again.Stop()
	t.Checkpoint = t.markOfNow
	t.ResumeRollbacks()
	t.Reshape(o.Spec.Shown(), o.Redactor)
	return t
}

// Run keeps the target going until ctx ends or the log refuses events.
func (t *Target) Run(ctx context.Context) {
	defer t.Resolver.Unsubscribe()
	defer t.Coverage.Leave()
	reason := ""
	defer t.endOpening()
	for ctx.Err() == nil {
		t.beginOpening(ctx)
		err := t.advance(ctx)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, sweep.ErrRolledBack) {
			continue // the next step is a full reconcile
		}
		if err != nil && !errors.Is(err, emit.ErrLog) {
			err = t.Resolver.ExplainForbidden(ctx, err)
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
	t.formerly.Keep(t.Name, t.Former)
	t.KeepRollbacks()
	if reason == "" {
		t.MarkLast()
	}
	t.endResnapshot(errInterrupted)
	t.SetState(status.Stopped, reason)
}

// advance does what comes next for the target and returns when that is over: nil
// if the loop should go on at once, an error if it should pause first.
func (t *Target) advance(ctx context.Context) error {
	t.Status.Alive()
	switch {
	case !t.Restored:
		return t.restore(ctx)
	case t.Source == nil:
		return t.Resolver.Resolve(ctx)
	case t.Spec.Namespaces.Selector != "" && !t.Coverage.Known:
		return t.awaitNamespaces(ctx)
	case !t.Status.Synced.Load():
		return t.snapshot(ctx)
	case t.Lost != nil && t.Lost.Phase == recovery.Reconciling:
		return t.Losses.Reconcile(ctx)
	default:
		return t.follow(ctx)
	}
}

// awaitNamespaces begins with the namespaces that match, or waits until there may be a list
// of them.
func (t *Target) awaitNamespaces(ctx context.Context) error {
	if begun, err := t.namespaces.Begin(ctx); begun || err != nil {
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
