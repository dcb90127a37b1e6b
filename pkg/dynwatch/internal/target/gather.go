package target

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/event"
)

// Nearly all frames are new states of objects, with nothing unusual about them or the
// target. Of those that arrive together the events are gathered and appended together:
// what comes before an append and after it costs more than the event itself. Nothing
// waits for a frame that has not arrived. Everything else is handled frame by frame.

// gather adds the event of a frame to the batch, if the frame is such a one. If not, it
// returns false, and what was gathered is in the log.
func (t *Target) gather(ctx context.Context, w *frame.Watched) (bool, error) {
	o := &w.Object
	if !t.settled() || w.Err != nil || w.Kind != watch.Added && w.Kind != watch.Modified {
		return false, t.gathered(ctx)
	}
	k, e := t.Objects.knownOf(emit.IDOf(o))
	d := decide.Decide(k, decide.Seen{Kind: decide.State, RV: o.ResourceVersion}, decide.Rules{Arrival: event.Added})
	if d.Op == "" || d.Replaced || e == nil && w.Kind == watch.Modified || o.ResourceVersion < max(t.position.rv, t.position.ahead) {
		return false, t.gathered(ctx)
	}
	if err := t.Objects.Announce(ctx, d.Op, o, e, false); err != nil {
		return false, err
	}
	t.position.ahead = o.ResourceVersion
	return true, nil
}

// settled reports whether nothing is under way for which it matters what a single frame
// tells: no selection, no comparison with a list.
func (t *Target) settled() bool {
	return t.Coverage.Filter == nil && !t.Spec.Selects() && t.Audits.running == nil
}

// gathered appends what was gathered, and moves the cursor to it.
func (t *Target) gathered(ctx context.Context) error {
	if t.position.ahead == 0 {
		return nil
	}
	if err := t.Writer.Flush(ctx); err != nil {
		return err
	}
	ahead := t.position.ahead
	t.position.ahead = 0
	t.refusals = refusals{}
	t.liveness.progress.Event()
	t.Status.Progressed()
	t.pause.reset()
	t.position.moveTo(ahead)
	return nil
}
