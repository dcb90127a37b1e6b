package dynwatch

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/schedule"
)

// Objects are announced anew when they fall due (resync.go) and when somebody asks
// for it (resnapshot.go). Either way a reader beside the loop reads them from the
// API server, one at a time, and the loop appends each between two frames, if the
// index says that it is what was announced last. An older state than that is never
// announced, as a newer one was since; a newer one neither, as the watch is about to
// bring it, and what was between the two.

// reannounceStep is the least time between two readings of what has fallen due.
const reannounceStep = 50 * time.Millisecond

// resnapshotter announces the objects of a target again.
type resnapshotter struct {
	*sweeper
	// relogs are the notices that the log was replaced: see relog.go.
	relogs chan relog
	// relost is the cursor at the last loss of the log's events, 0 before the first.
	relost   uint64
	schedule schedule.Schedule
	// requests are snapshots on request, of which one is under way at a time.
	requests   chan resnapshotRequest
	resnapshot *resnapshot
	// reader is what is being read, nil if nothing is.
	reader *reader
	// timer says when to look again.
	timer *time.Timer
	// backoff follows requests to the API server that fail, anew each time from fresh.
	backoff, fresh wait.Backoff
}

func newResnapshotter(s *sweeper) *resnapshotter {
	t := &resnapshotter{
		sweeper: s, schedule: schedule.New(s.name, s.spec.resync, s.timing.clock), relogs: make(chan relog, 1),
		requests: make(chan resnapshotRequest), timer: time.NewTimer(s.timing.Tick),
		fresh: kube.Backoff(5*s.timing.Backoff, 10*s.timing.BackoffCap),
	}
	t.timer.Stop()
	t.backoff = t.fresh
	return t
}

// reader reads objects while the watch goes on.
type reader struct {
	// objects is closed at the end; rv, of a list, and err are set then.
	objects chan present
	rv      uint64
	err     error
	stop    func()
}

// present is an object as it is now, if there is one.
type present struct {
	object frame.Object
	there  bool
	// at is the revision of a reading by name, 0 of a list.
	at uint64
	// bad is set if it cannot be passed on.
	bad *frame.Malformed
}

// read starts a reader. What read hands to take is handed to the loop, which may
// take its time.
func (t *resnapshotter) read(ctx context.Context, read func(ctx context.Context, take func(present) error) (uint64, error)) {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{objects: make(chan present)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(r.objects)
		r.rv, r.err = read(ctx, func(p present) error {
			select {
			case r.objects <- p:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	r.stop = func() {
		cancel()
		<-done
	}
	t.reader = r
}

// stopReader ends what is being read. It begins again where the loop had come to.
func (t *resnapshotter) stopReader() {
	t.timer.Stop()
	if t.reader != nil {
		t.reader.stop()
		t.reader = nil
	}
}

// objects is where the next object comes from; never, if nothing is being read.
func (t *resnapshotter) objects() <-chan present {
	if t.reader == nil {
		return nil
	}
	return t.reader.objects
}

// whole reports whether the index is what the watch has told up to the cursor.
func (t *feed) whole() bool { return t.lost == nil && len(t.undecided) == 0 }

// reannounce begins to read what is to be announced anew, if anything is.
func (t *resnapshotter) reannounce(ctx context.Context) {
	s := t.resnapshot
	switch {
	case t.reader != nil:
	case !t.whole():
		t.lookAgain(t.timing.Tick)
	case s != nil && !s.listed:
		t.read(ctx, t.lister())
	case s == nil && t.spec.resync > 0:
		t.resync(ctx)
	}
}

// lookAgain has the loop look for what is to be read, a while later.
func (t *resnapshotter) lookAgain(wait time.Duration) {
	t.timer.Reset(min(max(wait, reannounceStep), t.timing.Tick))
}

// reannounceNext takes an object from the reader, or its end.
func (t *resnapshotter) reannounceNext(ctx context.Context, p present, more bool) error {
	if !more {
		return t.readToEnd(ctx)
	}
	t.backoff = t.fresh
	t.status.beatNow()
	if p.bad != nil {
		if err := t.reject(ctx, p.bad); err != nil {
			return err
		}
	}
	if t.resnapshot != nil {
		return t.resnapshotted(ctx, &p)
	}
	return t.resynced(ctx, &p)
}

// readToEnd is what follows the end of a reader.
func (t *resnapshotter) readToEnd(ctx context.Context) error {
	r := t.reader
	t.stopReader()
	s := t.resnapshot
	switch {
	case r.err != nil:
		t.reannounceLater(ctx, r.err)
	case s != nil:
		if err := t.checkHistory(ctx, &s.against, r.rv); err != nil {
			return err
		}
		t.listed(r.rv)
		fallthrough
	default:
		t.lookAgain(0)
	}
	return nil
}

// concludeAll ends the audit and the snapshot on request that are under way, if the
// watch has passed their lists.
func (t *target) concludeAll(ctx context.Context) error {
	if err := t.audits.conclude(ctx); err != nil {
		return err
	}
	return t.resnapshots.concludeResnapshot(ctx)
}

// reannounceLater is what follows a failure to read: neither the watch nor the
// target's state is touched by it.
func (t *resnapshotter) reannounceLater(ctx context.Context, err error) {
	if t.resnapshot != nil && !t.listAnew(ctx, err) {
		return
	}
	pause := t.backoff.Step()
	if delay, ok := kube.SuggestedDelay(err); ok {
		pause = max(pause, delay)
	}
	t.logger.Warn("re-snapshot cannot read objects; retrying", "err", err, "pause", pause)
	t.timer.Reset(pause)
}

// announceAgain emits the state that was announced last of the entry's object once
// more, or the newer one that a change gate has held back. It is one more event of the
// object, so that the chain of ordinals and revisions has no hole: the revision before
// it is its own, or that of the event before.
func (t *resnapshotter) announceAgain(ctx context.Context, o *frame.Object, e *index.Entry, run uint64) error {
	return errors.Join(t.Repeat(ctx, o, e, run), t.Flush(ctx))
}

// isLast reports whether an object is what was announced last of its name, or held back
// since.
func (t *resnapshotter) isLast(o *frame.Object, e *index.Entry) bool {
	return e != nil && t.index.IsUID(e, o.UID) &&
		(t.index.Newest(e) == o.ResourceVersion || t.mayHaveHeldBack(e, o.ResourceVersion))
}
