package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stall is how long the API server may take to say the next thing. Its own limit
// for a request is 60 seconds.
const stall = 90 * time.Second

// errStalled: a request's answer did not come, or did not go on.
var errStalled = fmt.Errorf("the API server has said nothing for %v", stall)

// guard ends a request that stalls: on a connection that is half open nothing
// else would, and the target's loop would hang.
type guard struct {
	ctx    context.Context //nolint:containedctx // the context of one request
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func newGuard(ctx context.Context) *guard {
	g := &guard{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	g.timer = time.AfterFunc(stall, func() { g.cancel(errStalled) })
	return g
}

func (g *guard) pause() { g.timer.Stop() }

func (g *guard) resume() { g.timer.Reset(stall) }

// close ends the request's context, too.
func (g *guard) close() {
	g.pause()
	g.cancel(nil)
}

// explain returns err, or errStalled if that is why it came to be.
func (g *guard) explain(err error) error {
	if err != nil && errors.Is(context.Cause(g.ctx), errStalled) {
		return errStalled
	}
	return err
}
