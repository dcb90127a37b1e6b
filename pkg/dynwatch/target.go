package dynwatch

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/audit"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/feed"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/namespaces"
	"github.com/informd/informd/pkg/dynwatch/internal/reconcile"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/resnapshot"
	"github.com/informd/informd/pkg/dynwatch/internal/resolve"
	"github.com/informd/informd/pkg/dynwatch/internal/spec"
	"github.com/informd/informd/pkg/dynwatch/internal/sweep"
	"github.com/informd/informd/pkg/event"
)

// target is one resource, in all namespaces or in one, and the loop that keeps
// its events coming. All but status and what a Writer allows belongs to the goroutine of run.
type target struct {
	*sweep.Sweeper
	losses      *reconcile.Reconciler
	namespaces  *namespaces.Follower
	audits      *audit.Auditor
	resnapshots *resnapshot.Repeater
	resolver    *resolve.Resolver
	// openings give turns to targets that open their watch; opening ends this target's
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
	stateTold State
	// inquiries ask for what was announced: see [Manager.Known].
	inquiries chan chan Known
}

// rejected is an object that cannot be emitted, for [Options.Reject].
func rejected(target string, bad *frame.Malformed) Rejected {
	return Rejected{
		Target: target, Namespace: bad.Namespace, Name: bad.Name, UID: bad.UID,
		ResourceVersion: bad.ResourceVersion, Reason: display.Reason(bad.Reason), Size: bad.Size, Raw: bad.Raw,
	}
}

func newTarget(s spec.Spec, m *Manager) *target {
	options := &m.options
	reject := func(ctx context.Context, bad *frame.Malformed) error {
		return options.Reject(ctx, rejected(s.Name(), bad))
	}
	f := feed.New(feed.Options{
		Spec: s, Name: s.Name(), Cluster: options.Cluster, Journal: options.Log, LogKeeps: options.LogKeeps, AwaitLog: options.Await,
		StoreRejected: reject, Clients: m.clients, Owners: m.owners, Namespaces: m.namespaces, Timing: m.timing, Limits: m.limits,
		Logger: options.Logger.With("target", s.Name()),
	})
	f.Former = m.formerly.Take(s.Name())
	common := sweep.New(f)
	audits := audit.New(common)
	t := &target{
		Sweeper: common, losses: reconcile.New(common), namespaces: namespaces.New(common, audits.Abandon),
		audits: audits, resnapshots: resnapshot.New(common),
		resolver: resolve.New(f, m.redactor, m.served),
		openings: m.openings, runs: &m.runs, formerly: m.formerly, inquiries: make(chan chan Known),
	}
	t.Checkpoint = t.markOfNow
	t.Reshape(s, m.redactor)
	return t
}

// run keeps the target going until ctx ends or the log refuses events.
func (t *target) run(ctx context.Context) {
	defer t.resolver.Unsubscribe()
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
			err = t.resolver.ExplainForbidden(ctx, err)
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
	if reason == "" {
		t.MarkLast()
	}
	t.resnapshots.Close()
	t.SetState(Stopped, reason)
}

// advance does what comes next for the target and returns when that is over: nil
// if the loop should go on at once, an error if it should pause first.
func (t *target) advance(ctx context.Context) error {
	t.Status.Alive()
	switch {
	case !t.Restored:
		return t.restore(ctx)
	case t.Source == nil:
		return t.resolver.Resolve(ctx)
	case t.Spec.Namespaces.Selector != "" && !t.Coverage.Known:
		return t.awaitNamespaces(ctx)
	case t.Dropped.Unsifted:
		return t.Sift(ctx)
	case !t.Status.Synced.Load():
		return t.snapshot(ctx)
	case t.Lost != nil && t.Lost.Phase == recovery.Reconciling:
		return t.losses.Reconcile(ctx)
	default:
		return t.follow(ctx)
	}
}

// awaitNamespaces begins with the namespaces that match, or waits until there may be a list
// of them.
func (t *target) awaitNamespaces(ctx context.Context) error {
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
