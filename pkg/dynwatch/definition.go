package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// definitionWatch watches the objects of one kind for changes, metadata only. Of
// each it keeps the name and the revision, so that a list after a break tells no
// more than what has changed. All but open and denied belongs to the goroutine of
// run.
type definitionWatch struct {
	source *source
	logger *slog.Logger
	// tell is called with the name of an object that has changed, or that the first
	// list holds, and with whether it is there.
	tell   func(name string, there, changed bool)
	timing timing
	pause  wait.Backoff

	// seen has the revision of each object; it is nil before the first list.
	seen map[string]uint64
	// cursor is the revision to watch from, 0 if a list must come first.
	cursor uint64

	// open: a watch is, or the next one is about to be.
	open atomic.Bool
	// denied says why there is none, if the API server does not let us.
	denied atomic.Pointer[string]
}

func newDefinitionWatch(c *clients, logger *slog.Logger, gvr schema.GroupVersionResource, kind string, tell func(name string, there, changed bool)) (*definitionWatch, error) {
	r := resolved{gvr: gvr, kind: kind}
	s, err := newSource(spec{group: gvr.Group, version: gvr.Version, resource: gvr.Resource, mode: Metadata}, r, c, nil, noShape, nil)
	return &definitionWatch{source: s, logger: logger.With("resource", gvr.GroupResource().String()), tell: tell}, err
}

// run watches until ctx ends.
func (d *definitionWatch) run(ctx context.Context, tm timing) {
	d.timing = tm
	d.resetPause()
	for ctx.Err() == nil {
		err := d.follow(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		timer := time.NewTimer(d.fail(err))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// fail notes that nothing is told at the moment, and returns for how long to pause.
func (d *definitionWatch) fail(err error) time.Duration {
	d.open.Store(false)
	pause := d.pause.Step()
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		pause = min(pause, d.timing.backoffCap)
		if wait, ok := suggestedDelay(err); ok {
			pause = max(pause, wait)
		}
		d.logger.Debug("changes of what is served are not told", "err", err, "pause", pause)
		return pause
	}
	why := fmt.Sprintf("%s cannot be watched: %v", d.source.resolved.gvr.GroupResource(), err)
	if d.denied.Swap(&why) == nil {
		d.logger.Info("what tells of resources that come and go cannot be watched: those that are not served are asked for every few "+
			"seconds, and a new version is noticed when the old one goes", "err", err)
	}
	return max(pause, d.timing.waitingCap)
}

func (d *definitionWatch) resetPause() {
	d.pause = wait.Backoff{Duration: d.timing.backoff, Factor: 2, Jitter: 0.5, Steps: 30, Cap: d.timing.deniedCap}
}

// follow watches from the cursor until the watch ends for whatever reason. The
// error is nil if the next one should follow at once.
func (d *definitionWatch) follow(ctx context.Context) error {
	if d.cursor != 0 {
		rv, err := d.source.revision(ctx)
		if err != nil {
			return err
		}
		if rv < d.cursor {
			// The storage was restored from a copy: the revisions are of another history.
			d.seen, d.cursor = nil, 0
		}
	}
	if d.cursor == 0 {
		if err := d.list(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := d.source.watch(ctx, d.cursor, false)
	if err == nil {
		defer w.Stop()
		d.open.Store(true)
		if d.denied.Swap(nil) != nil {
			d.logger.Info("what tells of resources that come and go is watched from now on")
		}
		err = d.receive(ctx, w)
	}
	if expired(err) {
		d.cursor = 0
	}
	return err
}

// list tells how the objects differ from those that were seen.
func (d *definitionWatch) list(ctx context.Context) error {
	now := make(map[string]uint64, len(d.seen))
	rv, err := d.source.list(ctx, &listing{}, func(raw []byte) error {
		o, err := d.source.frames.Normalise(raw)
		bad, isBad := errors.AsType[*frame.Malformed](err)
		if isBad {
			o.Name, o.ResourceVersion = bad.Name, bad.ResourceVersion
		} else if err != nil {
			return err
		}
		now[o.Name] = o.ResourceVersion
		return nil
	})
	if err != nil {
		return err
	}
	first, before := d.seen == nil, d.seen
	d.seen, d.cursor = now, rv
	for name, at := range now {
		if first || before[name] != at {
			d.tell(name, true, !first)
		}
	}
	for name := range before {
		if _, still := now[name]; !still {
			d.tell(name, false, true)
		}
	}
	return nil
}

// receive handles what the watch brings until it ends, or says nothing for so long
// that it may be dead.
func (d *definitionWatch) receive(ctx context.Context, w watch.Interface) error {
	if err := receiveAll(ctx, d.timing, w, d.handle); !errors.Is(err, errSilent) {
		return err
	}
	return nil
}

// receiveAll hands over what a watch brings until it ends; [errSilent] says that it
// brought nothing for so long that it may be dead, [errEnded] that it ended at once.
func receiveAll(ctx context.Context, tm timing, w watch.Interface, handle func(watch.Event) error) error {
	began := time.Now()
	silence := time.NewTimer(tm.silence)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			return errSilent
		case e, ok := <-w.ResultChan():
			if !ok && time.Since(began) < tm.tick {
				return errEnded
			}
			if !ok {
				return nil
			}
			if err := handle(e); err != nil {
				return err
			}
			silence.Reset(tm.silence)
		}
	}
}

func (d *definitionWatch) handle(e watch.Event) error {
	if e.Type == watch.Error {
		return fmt.Errorf("watch: %w", apierrors.FromObject(e.Object))
	}
	w, ok := e.Object.(*frame.Watched)
	if !ok {
		return fmt.Errorf("watch: unexpected %T", e.Object)
	}
	d.resetPause()
	name, rv := w.Name, w.ResourceVersion
	if w.Err != nil {
		name, rv = w.Err.Name, w.Err.ResourceVersion
	}
	d.cursor = max(d.cursor, rv)
	switch e.Type {
	case watch.Bookmark:
		return nil
	case watch.Deleted:
		delete(d.seen, name)
	default:
		d.seen[name] = rv
	}
	d.tell(name, e.Type != watch.Deleted, true)
	return nil
}
