package feed

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/checkpoint"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/owner"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/spec"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// Options are what a feed is made of.
type Options struct {
	Spec    spec.Spec
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
}

// Feed is the stream of events of one target: its index, its writer and its position. All
// features of the target share it. It has many fields because they are one state: each
// says something of what was emitted up to the position.
type Feed struct {
	// Writer writes index and log.
	*emit.Writer
	Options
	Status *status.Status
	Index  *index.Index
	// Source is nil until the resource is resolved.
	Source *listwatch.Source
	// Failures are the requests that fail.
	Failures listwatch.Failures
	// Position is the position in the watch.
	Position
	// Coverage are the namespaces whose objects the target announces.
	Coverage selection.Coverage
	// Undecided are deletions that could not be distinguished from leaving the selection yet.
	Undecided []Undecided
	// First is the first list, until it is complete.
	First FirstRun
	// FirstOp is the operation of objects in the first list: they existed when
	// informd first asked for them, or the resource came later. Empty until it asked.
	FirstOp event.Op
	// Lost is history that the API server no longer has, until it is recovered.
	Lost *recovery.Lost
	// Former are objects that were announced as deleted and can return.
	Former *recovery.Deleted
	// rejections are the revisions of rejected objects, by UID, so that
	// each list does not reject them again.
	rejections map[string]uint64
	// Sweeps numbers the sweeps, for the marks in the index.
	Sweeps uint32
	// Head is the resource's revision when the watch was opened.
	Head uint64
	// Stalled is when an append ended that took long: the watch has perhaps brought
	// more by then than was read of it.
	Stalled time.Time
	// Progress is how far the watches have come.
	Progress listwatch.Progress
	// Pause follows an error of the API server.
	Pause wait.Backoff
	// Repeating: a re-snapshot on request is in progress, and change filters hold nothing
	// back.
	Repeating bool
	// HeldBack: change filters have held back states. The log does not know which.
	HeldBack bool
	// Shown is the state that was logged last.
	Shown      status.State
	ShownSince time.Time

	// Restored: the index is what the log says. marked is the last checkpoint there, and
	// checkpoint returns the one of now.
	Restored   bool
	Marked     checkpoint.Mark
	Marks      checkpoint.Timer
	Checkpoint func() checkpoint.Mark
}

// FirstRun identifies the first list.
type FirstRun struct {
	// Began is a revision from before anything was announced, and run that of all that
	// belongs to the list; 0 if an earlier version of informd has begun it. A restart of
	// the process or of the list does not change them: what was announced before stays
	// part of it. Where the log has lost events, each process begins another run.
	Began, Run uint64
	// Lost: the log has lost some or all events of the target, so that not all
	// deletions before the list are known. So the list names every object, also those that
	// the index has: a consumer may hold objects that no longer exist.
	Lost bool
}

// New returns a feed that knows nothing yet.
func New(o Options) *Feed {
	f := &Feed{
		Options: o, Status: status.New(o.Spec.Version), Index: index.New(), Position: Position{Ended: make(map[string]uint64)},
		rejections: make(map[string]uint64), Coverage: selection.NewCoverage(o.Spec.Namespaces, o.Namespaces), Marks: checkpoint.NewTimer(),
		Failures: listwatch.Failures{After: o.Timing.Failing},
	}
	f.Writer = emit.New(emit.Options{
		Append: f.append, Forget: f.forget, Log: o.Log, Meter: f.Status, Logger: f.Logger, Owners: o.Owners,
		Cluster: o.Cluster, Target: f.Name, Namespace: o.Spec.Namespace, Index: f.Index,
		Wanted: schema.GroupVersionResource{Group: o.Spec.Group, Version: o.Spec.Version, Resource: o.Spec.Resource},
	})
	f.ResetPause()
	return f
}

// Announce emits op for an object that exists, and remembers it, unless the change filters
// hold it back. e is what the index holds of it under the same uid, nil if nothing.
func (t *Feed) Announce(ctx context.Context, op event.Op, o *frame.Object, e *index.Entry, replay bool) error {
	return t.AnnounceCaused(ctx, op, o, e, replay, o.ResourceVersion)
}

// AnnounceCaused is announce for what has entered because of another object, the
// Namespace: cause is the revision of its change.
func (t *Feed) AnnounceCaused(ctx context.Context, op event.Op, o *frame.Object, e *index.Entry, replay bool, cause uint64) error {
	if e == nil && t.Former != nil {
		if err := t.meetFormer(ctx, o); err != nil {
			return err
		}
	}
	held, err := t.Write(ctx, emit.Announcement{
		Op: op, Object: o, Entry: e, Replay: replay, Cause: cause, Run: t.First.Run, Noted: t.First.Lost, Unfiltered: t.Repeating,
	})
	if held {
		t.Status.Unchanged.Add(1)
		t.NoteHeldBack(e, o.ResourceVersion)
	}
	return err
}

// End emits op, Deleted or Left, for what the index holds as e, and forgets it.
func (t *Feed) End(ctx context.Context, op event.Op, e *index.Entry, o *frame.Object, rv uint64, replay bool) error {
	if op == event.Deleted && t.Lost != nil && t.Lost.Walks() {
		t.Lost.NoteDeleted(t.Index.UID(e), rv)
	}
	if err := t.uncount(ctx, rv); err != nil {
		return err
	}
	return t.WriteEnd(ctx, op, e, o, rv, replay)
}

// Whole reports whether the index holds all that the watch has brought up to the position.
func (t *Feed) Whole() bool {
	return t.Lost == nil && len(t.Undecided) == 0 && t.Coverage.Replays() == 0
}

// SetState shows a state.
func (t *Feed) SetState(state status.State, reason string) {
	t.Status.Set(state, reason)
	if t.Shown == state {
		return
	}
	t.Shown, t.ShownSince = state, time.Now()
	level := slog.LevelInfo
	if state != status.Live && state != status.Syncing && state != status.Stopped {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("state", string(state))}
	if reason != "" {
		attrs = append(attrs, slog.String("reason", display.Reason(reason)))
	}
	if state == status.Forbidden || state == status.Degraded {
		attrs = append(attrs, slog.String("runbook", display.AlertRunbook("InformdTargetNotWatched")))
	}
	t.Logger.LogAttrs(context.Background(), level, "target state changed", attrs...)
}
