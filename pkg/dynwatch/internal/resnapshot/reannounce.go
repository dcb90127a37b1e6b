package resnapshot

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/sweep"
)

// A reader beside the loop reads the objects from the API server, one at a time, and the
// loop appends each between two frames, if the index says that it is what was announced last. An older state than that is never
// announced, as a newer one was since; a newer one neither, as the watch is about to
// bring it, and what was between the two.

// Repeater announces the objects of a target again.
type Repeater struct {
	*sweep.Sweeper
	// BoundsMissing is the run of the re-snapshot that emits the first begin and synced events
	// of the target, 0 if the log has them.
	BoundsMissing uint64
	// Requests are snapshots on request, of which one is under way at a time.
	Requests   chan Request
	resnapshot *resnapshot
	// reader is what is being read, nil if nothing is.
	reader *reader
	// Timer says when to go on.
	Timer *time.Timer
	// Backoff follows requests to the API server that fail; each series begins with fresh.
	backoff, fresh wait.Backoff
}

// New returns the Repeater of a target.
func New(s *sweep.Sweeper) *Repeater {
	t := &Repeater{
		Sweeper: s, Requests: make(chan Request), Timer: time.NewTimer(s.Timing.Tick),
		fresh: kube.Backoff(5*s.Timing.Backoff, 10*s.Timing.BackoffCap),
	}
	t.Timer.Stop()
	t.backoff = t.fresh
	return t
}

// reader reads objects while the watch continues.
type reader struct {
	// objects is closed at the end; rv, of a list, and err are set then.
	objects chan Object
	rv      uint64
	err     error
	stop    func()
}

// Object is an object as it is now.
type Object struct {
	object frame.Object
	// bad is set if it cannot be passed on.
	bad *frame.Malformed
}

// read starts a reader. What read hands to take is handed to the loop, which may
// take its time.
func (t *Repeater) read(ctx context.Context, read func(ctx context.Context, take func(Object) error) (uint64, error)) {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{objects: make(chan Object)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(r.objects)
		r.rv, r.err = read(ctx, func(p Object) error {
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

// StopReader ends what is being read. It begins again where the loop had come to.
func (t *Repeater) StopReader() {
	t.Timer.Stop()
	if t.reader != nil {
		t.reader.stop()
		t.reader = nil
	}
}

// Objects is where the next object comes from; never, if nothing is being read.
func (t *Repeater) Objects() <-chan Object {
	if t.reader == nil {
		return nil
	}
	return t.reader.objects
}

// Idle reports whether no re-snapshot is in progress.
func (t *Repeater) Idle() bool { return t.reader == nil && t.resnapshot == nil }

// Continue goes on with a re-snapshot that is in progress.
func (t *Repeater) Continue(ctx context.Context) {
	s := t.resnapshot
	switch {
	case s == nil || s.listed || t.reader != nil:
	case t.Whole():
		t.read(ctx, t.lister())
	default:
		t.Timer.Reset(t.Timing.Tick)
	}
}

// Next takes an object from the reader, or its end.
func (t *Repeater) Next(ctx context.Context, p Object, more bool) error {
	if !more {
		return t.readToEnd(ctx)
	}
	t.backoff = t.fresh
	t.Status.Alive()
	if p.bad != nil {
		return t.Reject(ctx, p.bad)
	}
	return t.resnapshotted(ctx, &p.object)
}

// readToEnd is what follows the end of a reader.
func (t *Repeater) readToEnd(ctx context.Context) error {
	r := t.reader
	t.StopReader()
	if r.err != nil {
		t.reannounceLater(ctx, r.err)
		return nil //nolint:nilerr // the watch goes on
	}
	if err := t.CheckHistory(ctx, &t.resnapshot.against, r.rv); err != nil {
		return err
	}
	t.listed(r.rv)
	return nil
}

// reannounceLater is what follows a failure to read: neither the watch nor the
// target's state is touched by it.
func (t *Repeater) reannounceLater(ctx context.Context, err error) {
	if !t.listAnew(ctx, err) {
		return
	}
	pause := t.backoff.Step()
	if delay, ok := kube.SuggestedDelay(err); ok {
		pause = max(pause, delay)
	}
	t.Logger.Warn("re-snapshot cannot read objects; retrying", "err", err, "pause", pause)
	t.Timer.Reset(pause)
}

// announceAgain emits the state that was announced last of the entry's object once
// more, or the newer one that a change filter has held back. It is one more event of the
// object, so that the chain of ordinals and revisions has no hole: the revision before
// it is its own, or that of the event before.
func (t *Repeater) announceAgain(ctx context.Context, o *frame.Object, e *index.Entry, run uint64) error {
	return errors.Join(t.Repeat(ctx, o, e, run), t.Flush(ctx))
}

// isLast reports whether an object is what was announced last of its name, or held back
// since.
func (t *Repeater) isLast(o *frame.Object, e *index.Entry) bool {
	return e != nil && t.Index.IsUID(e, o.UID) &&
		(t.Index.Newest(e) == o.ResourceVersion || t.MayHaveHeldBack(e, o.ResourceVersion))
}
