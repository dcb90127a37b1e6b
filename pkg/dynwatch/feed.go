package dynwatch

import (
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/dynwatch/internal/audit"
	"github.com/informd/informd/pkg/dynwatch/internal/checkpoint"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// feed is the stream of events of one target: its index, its writer and its position. All
// features of the target share it. It has many fields because they are one state: each
// says something of what was emitted up to the position.
type feed struct {
	// Writer writes index and log.
	*emit.Writer
	spec    spec
	name    string // of the spec
	options *Options
	clients *kube.Clients
	timing  timing
	limits  limits
	logger  *slog.Logger
	status  *status
	index   *index.Index
	// source is nil until the resource is resolved.
	source *listwatch.Source
	// position is the position in the watch.
	position
	// coverage are the namespaces whose objects the target announces.
	coverage selection.Coverage
	// undecided are deletions that could not be distinguished from leaving the selection yet.
	undecided []undecided
	// dropped are objects that an edit of the selectors has dropped.
	dropped dropped
	// first is the first list, until it is complete.
	first firstRun
	// firstOp is the operation of objects in the first list: they existed when
	// informd first asked for them, or the resource came later. Empty until it asked.
	firstOp event.Op
	// lost is history that the API server no longer has, until it is recovered.
	lost *recovery.Lost
	// former are objects that were announced as deleted and can return.
	former *recovery.Deleted
	// rejections are the revisions of rejected objects, by UID, so that
	// each list does not reject them again.
	rejections map[string]uint64
	// sweeps numbers the sweeps, for the marks in the index.
	sweeps uint32
	await  await
	// progress is how far the watches have come.
	progress listwatch.Progress
	// pause follows an error of the API server.
	pause wait.Backoff
	// repeating: all objects are announced again on request, so that change filters hold
	// nothing back.
	repeating bool
	// shown is the state that was logged last.
	shown      State
	shownSince time.Time

	// restored: the index is what the log says. marked is the last checkpoint there, and
	// checkpoint returns the one of now.
	restored   bool
	marked     checkpoint.Mark
	marks      checkpoint.Timer
	checkpoint func() checkpoint.Mark
}

// firstRun identifies the first list.
type firstRun struct {
	// began is a revision from before anything was announced, and run that of all that
	// belongs to the list; 0 if an earlier version of informd has begun it. A restart of
	// the process or of the list does not change them: what was announced before stays
	// part of it. Where the log has lost events, each process begins another run.
	began, run uint64
	// lost: the log has lost some or all events of the target, so that not all
	// deletions before the list are known. So the list names every object, also those that
	// the index has: a consumer may hold objects that no longer exist.
	lost bool
}

// decider decides what became of an object that a frame or a list no longer shows: it was
// deleted, left the selection, or exists and the list is wrong.
type decider struct {
	*feed
	// trust is how far lists are believed about deletions.
	trust audit.Trust
}

// sweeper compares lists and frames with the index, and emits the differences.
type sweeper struct{ *decider }

// reconciler recovers lost history as far as lists and etcd have it.
type reconciler struct {
	*sweeper
	// reconciles counts the losses of history since the watch last brought anything
	// in order.
	reconciles int
}

// namespacer follows the namespaces that a target selects.
type namespacer struct {
	*sweeper
	// interrupt is called before namespaces are matched or unmatched.
	interrupt func()
}
