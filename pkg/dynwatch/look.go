package dynwatch

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

// errMoved: the resource is to be watched in another version.
var errMoved = errors.New("the watch moves to another version")

// looks are those that follow a nudge.
type looks struct {
	catalog.Series
	last time.Time
	// timer runs while the watch is open and a look is due.
	timer *time.Timer
}

func newLooks() looks {
	l := looks{timer: time.NewTimer(time.Hour)}
	l.timer.Stop()
	return l
}

// nudged begins to look. A target that is watching does so once if nothing is
// known to have changed.
func (t *target) nudged() {
	changed := t.nudge.Changed.Swap(false)
	if changed || t.source == nil {
		t.looks.Begin(t.timing.Lasting, t.timing.First, 2)
	}
}

// soon is how long to wait before the look that a nudge asks for: nothing, unless
// nudges come so fast that each would cost a look.
func (t *target) soon() time.Duration {
	return max(0, t.timing.First-time.Since(t.looks.last))
}

// look asks discovery while the watch is open. It returns errMoved if the watch
// should end, since the resource is to be watched in another version. All else
// means nothing: if the resource went away, the watch tells.
func (t *target) look(ctx context.Context) error {
	if d, more := t.looks.Next(); more {
		t.looks.timer.Reset(d)
	} else if t.failing.fellBack {
		t.looks.timer.Reset(t.backAgain())
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	r, err := t.discover(ctx)
	if err == nil && r == t.Resolved {
		return nil
	}
	var s *listwatch.Source
	if err == nil {
		s, err = t.spec.source(r, t.clients, t.redactor, t.Shape, t.coverage.Filter)
	}
	if err == nil {
		// Discovery may be ahead of what it speaks of, and conversion can be broken.
		err = s.Answers(ctx)
	}
	if err != nil {
		t.logger.Debug("rediscovery failed", "err", err)
		return nil
	}
	t.logger.Info("watch moves to another version", "from_version", t.Resolved.GVR.Version, "version", r.GVR.Version, "kind", r.Kind)
	t.use(s, r)
	t.failing = failing{}
	return errMoved
}

func (t *target) discover(ctx context.Context) (catalog.Resolved, error) {
	if r := t.offered; r != nil {
		t.offered = nil
		return *r, nil
	}
	t.looks.last = time.Now()
	return catalog.Resolve(ctx, t.clients.Discovery, t.spec.wanted())
}

// use makes a source that of the target.
func (t *target) use(s *listwatch.Source, r catalog.Resolved) {
	t.source, t.Resolved = s, r
	s.Times = &t.status.lists
	t.status.setResolved(r)
}
