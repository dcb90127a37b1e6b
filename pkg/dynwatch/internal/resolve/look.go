package resolve

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// A target that is nudged looks at discovery at once, and again in growing
// intervals for a while. One that waits for its resource begins with what it
// finds; one that watches moves on if it is to be watched in another version. The
// revisions of an object are the same in all its versions, so the cursor stays.

// lookPatience bounds one look of a target whose watch is open: meanwhile nothing
// is read from it.
const lookPatience = 5 * time.Second

// ErrMoved says that the resource is to be watched in another version.
var ErrMoved = errors.New("the watch moves to another version")

// looks are those that follow a nudge.
type looks struct {
	catalog.Series
	last time.Time
	// Timer runs while the watch is open and a look is due.
	Timer *time.Timer
}

func newLooks() looks {
	l := looks{Timer: time.NewTimer(time.Hour)}
	l.Timer.Stop()
	return l
}

// Noticed begins to look. A target that is watching does so once if nothing is
// known to have changed.
func (t *Resolver) Noticed() {
	changed := t.Notice.Changed.Swap(false)
	if changed || t.Source == nil {
		t.Looks.Begin(t.Timing.Lasting, t.Timing.First, 2)
	}
}

// Soon is the wait before the poll that follows a notice: none, unless notices come so fast
// that each would cost a poll.
func (t *Resolver) Soon() time.Duration {
	return max(0, t.Timing.First-time.Since(t.Looks.last))
}

// Look asks discovery while the watch is open. It returns errMoved if the watch
// should end, since the resource is to be watched in another version. Nothing
// else matters: if the resource was removed, the watch brings the deletions.
func (t *Resolver) Look(ctx context.Context) error {
	if d, more := t.Looks.Next(); more {
		t.Looks.Timer.Reset(d)
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	r, err := t.discover(ctx)
	if err == nil && r == t.Resolved {
		return nil
	}
	var s *listwatch.Source
	if err == nil {
		s, err = t.Spec.Source(r, t.Clients, t.redactor, t.Shape, t.Coverage.Filter)
	}
	if err == nil {
		// Discovery may be ahead of what it speaks of, and conversion can be broken.
		err = s.Answers(ctx)
	}
	if err != nil {
		t.Logger.Debug("rediscovery failed", "err", err)
		return nil
	}
	t.Logger.Info("watch moves to another version", "from_version", t.Resolved.GVR.Version, "version", r.GVR.Version, "kind", r.Kind)
	t.use(s, r)
	return ErrMoved
}

func (t *Resolver) discover(ctx context.Context) (catalog.Resolved, error) {
	if r := t.Offered; r != nil {
		t.Offered = nil
		return *r, nil
	}
	t.Looks.last = time.Now()
	return catalog.Resolve(ctx, t.Clients.Discovery, t.Spec.Wanted())
}

// use makes a source that of the target.
func (t *Resolver) use(s *listwatch.Source, r catalog.Resolved) {
	t.Source, t.Resolved = s, r
	s.Times, s.Failures = &t.Status.Lists, &t.Failures
	t.Status.SetResolved(r)
}
