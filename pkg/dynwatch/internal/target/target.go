package target

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
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
	Owners        *emit.OwnerFinder
	Namespaces    *selection.Namespaces
	Timing        Timing
	Limits        Limits
	Logger        *slog.Logger
	Redactor      *frame.Redactor
	// Served notifies targets when what is served may have changed.
	Served *catalog.Watcher
	// Openings limit how many targets open their watch at a time.
	Openings *kube.Openings
	Runs     *form.Runs
}

// Target is one resource, in all namespaces or in one, and the loop that keeps its events coming.
// Status, and the Writer's Shape and Reshape, may be used by any goroutine at any time, the Requests of Audits and
// Resnapshots while the loop runs; all else belongs to the goroutine of Run.
type Target struct {
	Options
	Status *status.Status
	Index  *index.Index
	// Writer writes index and log.
	Writer      *emit.Writer
	appends     appends
	loop        loop
	position    position
	Marks       marks
	Discovery   discovery
	Coverage    selection.Coverage // the namespaces whose objects the target announces
	flipGap     flipGap
	lookups     lookups
	Objects     objects
	rejections  rejections
	rollbacks   rollbacks
	refusals    refusals
	liveness    liveness
	Audits      audits
	Resnapshots resnapshots
	pause       pause
	opening     opening
	shown       shown
}

// New returns a target whose loop does not run yet.
func New(o Options) *Target {
	t := &Target{
		Options: o, Status: status.New(o.Spec.Version), Index: index.New(), position: position{ended: make(map[string]uint64)},
		Marks: marks{log: o.Log, target: o.Name, timer: stoppedTimer()}, loop: loop{state: preparing{}},
		Coverage:  selection.NewCoverage(o.Spec.Namespaces, o.Namespaces),
		rollbacks: rollbacks{shared: o.Clients.Rollbacks, target: o.Name, considered: o.Clients.Rollbacks.Considered(o.Name)},
		pause:     pause{first: o.Timing.Backoff, longest: o.Timing.BackoffCap},
	}
	t.Audits = newAudits(o.Timing.AuditEvery, t.Status, o.Logger)
	t.Resnapshots = resnapshots{Requests: make(chan ResnapshotRequest), logger: o.Logger}
	t.liveness = liveness{timing: &t.Timing, status: t.Status}
	t.shown = shown{status: t.Status, logger: o.Logger}
	t.rejections = rejections{at: make(map[string]uint64), store: o.StoreRejected, status: t.Status, logger: o.Logger}
	t.position.marks, t.position.status = &t.Marks, t.Status
	t.appends = appends{log: o.Log, status: t.Status}
	t.Writer = emit.New(emit.Options{
		Append: t.appends.append, Forget: t.appends.forget, Log: o.Log, Meter: t.Status, Logger: o.Logger, Owners: o.Owners,
		Cluster: o.Cluster, Target: o.Name, Namespace: o.Spec.Namespace, Index: t.Index,
		Wanted: schema.GroupVersionResource{Group: o.Spec.Group, Version: o.Spec.Version, Resource: o.Spec.Resource},
	})
	t.pause.reset()
	t.Discovery = discovery{
		notice: o.Served.Subscribe(o.Spec.GroupResource()), timer: stoppedTimer(), spec: &t.Spec, served: o.Served,
		clients: o.Clients, timing: &t.Timing, writer: t.Writer, filter: t.Coverage.Filter, status: t.Status, logger: o.Logger,
	}
	t.lookups = lookups{
		discovery: &t.Discovery, index: t.Index, writer: t.Writer, rejections: &t.rejections, loop: &t.loop,
		coverage: &t.Coverage, status: t.Status, logger: o.Logger,
	}
	t.Objects = objects{
		index: t.Index, writer: t.Writer, lookups: &t.lookups, discovery: &t.Discovery, position: &t.position,
		coverage: &t.Coverage, loop: &t.loop, marks: &t.Marks, audits: &t.Audits, status: t.Status, logger: o.Logger,
	}
	t.Writer.Reshape(o.Spec.Shown(), o.Redactor)
	return t
}

// Run keeps the target going until ctx ends or the log refuses events.
func (t *Target) Run(ctx context.Context) {
	defer t.Discovery.unsubscribe()
	defer t.Coverage.Leave()
	defer t.opening.end()
	var err error
	for err == nil {
		t.beginOpening(ctx)
		err = t.advance(ctx)
	}
	reason := ""
	if ctx.Err() == nil {
		reason = err.Error()
		t.Logger.Error("journal refused events; target stopped", "err", err)
	}
	if t.loop.loss() == nil && !t.loop.rolledBack() {
		t.rollbacks.keep() // else the next one considers them again
	}
	if reason == "" {
		t.markLast()
	}
	t.Audits.answer(AuditResult{Err: ErrAbandoned})
	t.Resnapshots.end(t.position.rv, errInterrupted)
	t.shown.set(status.Stopped, reason)
}

// advance does a step, and what follows from its outcome: the next state, with a checkpoint of what was completed,
// and a pause after an error. Its own error says that the target stops.
func (t *Target) advance(ctx context.Context) error {
	next, err := t.step(ctx)
	if err != nil {
		err = t.explainForbidden(ctx, err)
	}
	if ctx.Err() != nil {
		err = errEnd
	}
	was := t.loop.state.below()
	t.loop.state = after(next, err)
	if _, stops := t.loop.state.(stopped); stops {
		return err
	}
	if was != nil && was != t.loop.state.below() {
		if err := t.markNow(ctx); err != nil {
			return err
		}
	}
	if err == nil || isLoss(err) {
		return nil
	}
	return t.fail(ctx, err)
}

// step does what comes next for the target, until that is over. It returns the state that follows, with an error the
// one that [after] begins with.
func (t *Target) step(ctx context.Context) (state, error) {
	t.Status.Alive()
	switch s := t.loop.state.(type) {
	case preparing:
		return t.prepare(ctx, s)
	case *listing:
		return t.readFirst(ctx, s)
	case following:
		return t.follow(ctx)
	case recovering:
		return t.recover(ctx, s.lost)
	default:
		return s, errEnd
	}
}

// prepare does one thing that must be done before the target can list or watch.
func (t *Target) prepare(ctx context.Context, s preparing) (state, error) {
	var err error
	switch {
	case s.then == nil:
		s.then, err = t.restore(ctx)
	case t.Discovery.Source == nil:
		err = t.resolve(ctx)
	case t.Spec.Namespaces.Selector != "" && !t.Coverage.Known:
		s.then, err = t.awaitNamespaces(ctx, s.then)
	default:
		return s.then, nil
	}
	return s, err
}

// awaitNamespaces begins with the namespaces that match, or waits until there may be a list
// of them. It returns what the target does then.
func (t *Target) awaitNamespaces(ctx context.Context, then state) (state, error) {
	begun, then, err := t.beginNamespaces(ctx, then)
	if begun || err != nil {
		return then, err
	}
	t.opening.end()
	for {
		t.Status.Alive()
		select {
		case <-ctx.Done():
			return then, ctx.Err()
		case <-t.Coverage.Changed:
			return then, nil
		case <-time.After(t.Timing.Tick):
		}
	}
}
