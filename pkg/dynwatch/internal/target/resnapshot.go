package target

import (
	"context"
	"errors"
	"log/slog"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// A re-snapshot announces each object of the target again, on request. Between two frames the loop lists the selection
// at exactly its position, and repeats what the log has as it is listed. If the log is ahead of the list, another list
// follows. A server without exact revisions has no re-snapshots but those from the log.

// resnapshotAttempts is how often in a row the list of a re-snapshot may fail until the request is
// given up: for five minutes, as a tick is one attempt.
const resnapshotAttempts = 20

// errInterrupted: the target ended during a snapshot on request.
var errInterrupted = errors.New("the target stopped before the snapshot was complete")

// errDiffers: the list has objects at other revisions than the log.
var errDiffers = errors.New("the list has objects that changed meanwhile")

// errUnreadable: with the synced event, a consumer would drop an object that exists.
var errUnreadable = errors.New("the list has objects that cannot be read: see the dead letters of the source")

// ResnapshotResult is the outcome of a request: see dynwatch.ResnapshotResult.
type ResnapshotResult struct {
	Revision uint64
	Objects  int
	Err      error
}

// ResnapshotRequest asks for a re-snapshot with a run.
type ResnapshotRequest struct {
	Run   uint64
	Reply chan<- ResnapshotResult // with a buffer of one
}

// resnapshots are those of a target, of which one is in progress at a time.
type resnapshots struct {
	Requests chan ResnapshotRequest
	running  *resnapshot
	logger   *slog.Logger
}

// resnapshot is the re-snapshot that is in progress. It continues over the ends of watches.
type resnapshot struct {
	request  ResnapshotRequest
	round    uint32 // of its lists
	objects  int    // that were announced again
	failures int
	head     uint64 // revision that the watch has to pass before the next list
}

// resnapshotRequests is where requests come from; never, while one is in progress, or an audit, which marks entries, too.
func (t *Target) resnapshotRequests() <-chan ResnapshotRequest {
	if t.Resnapshots.running != nil || t.Audits.running != nil {
		return nil
	}
	return t.Resnapshots.Requests
}

// beginResnapshot emits the begin event, and all objects if the API server lists them.
func (t *Target) beginResnapshot(ctx context.Context, r ResnapshotRequest) error {
	t.Resnapshots.running = &resnapshot{request: r}
	t.Logger.Info("re-snapshot started", "run", r.Run)
	if err := t.Writer.EmitBound(ctx, event.Begin, r.Run, t.position.rv, true); err != nil {
		return err
	}
	return t.listAgain(ctx)
}

// listAgain lists the objects, repeats them, and ends the re-snapshot. What an attempt before has repeated is left
// out. A failure touches neither the watch nor the state of the target.
func (t *Target) listAgain(ctx context.Context) error {
	s := t.Resnapshots.running
	if s == nil || t.Clients.Pace.Closed(t.Discovery.Source.Resource.GVR.Group) > 0 {
		return nil
	}
	if t.position.rv < s.head {
		t.liveness.progress.Expect(t.position.rv, s.head)
		return nil
	}
	err := t.repeatAll(ctx, s)
	switch {
	case errors.Is(err, emit.ErrLog), isLoss(err):
		return err
	case err == nil:
		err = t.Writer.EmitBound(ctx, event.Synced, s.request.Run, t.position.rv, true)
		t.Resnapshots.end(t.position.rv, nil)
		return err
	}
	if listwatch.Expired(err) { // the position is one that etcd has compacted: nothing has come for long
		s.head, _ = t.Discovery.Source.Revision(ctx) // if that fails, the next list is another failure
	}
	if s.failures++; s.failures >= resnapshotAttempts || listwatch.Unsupported(err) {
		t.Resnapshots.end(t.position.rv, err)
		return nil
	}
	t.Logger.Warn("re-snapshot cannot list the objects; retrying", "err", err, "pause", t.Timing.Tick)
	return nil
}

// repeatAll lists the objects and repeats them.
func (t *Target) repeatAll(ctx context.Context, s *resnapshot) error {
	pass := t.Objects.NewPass(Pass{Repeat: s.request.Run, Round: s.round})
	s.round = pass.Round
	rv, err := t.list(ctx, pass, &listwatch.Listing{At: t.position.rv, Brief: true})
	if s.objects += pass.Repeated; pass.Repeated > 0 {
		s.failures = 0
	}
	switch {
	case err != nil:
		return err
	case pass.Unreadable:
		return errUnreadable
	}
	for e := range t.Index.All() {
		// The list has it in another state, or one of its name from before, or lacks it; or its namespace leaves, and may
		// match again before.
		if e.Round != s.round && (e.Sweep == pass.Number || e.RV > rv || !t.Coverage.Filter.Covers(t.Index.Namespace(e))) {
			return errDiffers
		}
	}
	return t.lookups.confirmGone(ctx, t.Objects.missing(pass), rv) // a consumer drops what no event of the re-snapshot has
}

// end answers the caller, if a re-snapshot is in progress, which has come to a revision.
func (r *resnapshots) end(rv uint64, err error) {
	s := r.running
	if s == nil {
		return
	}
	r.running = nil
	if err != nil {
		r.logger.Warn("re-snapshot incomplete", "run", s.request.Run, "err", err, "next", "run `informd resnapshot` again")
	} else {
		r.logger.Info("re-snapshot complete", "run", s.request.Run, "count", s.objects)
	}
	s.request.Reply <- ResnapshotResult{Revision: rv, Objects: s.objects, Err: err}
}
