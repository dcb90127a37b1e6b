package kube

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stall is the longest time between two parts of an answer. The API server's own limit for
// a request is 60 seconds.
const stall = 90 * time.Second

// ErrStalled says that no answer came, or that an answer did not continue.
var ErrStalled = fmt.Errorf("the API server sent nothing for %v", stall)

// Guard ends a request that stalls. Without it, a half-open connection would block the
// target's loop for ever.
type Guard struct {
	Context context.Context //nolint:containedctx // the context of one request
	cancel  context.CancelCauseFunc
	timer   *time.Timer
}

// NewGuard starts the clock of one request. The caller uses the guard's context for the
// request, and closes the guard.
func NewGuard(ctx context.Context) *Guard {
	g := &Guard{}
	g.Context, g.cancel = context.WithCancelCause(ctx)
	g.timer = time.AfterFunc(stall, func() { g.cancel(ErrStalled) })
	return g
}

// Pause stops the clock while the caller handles a part of the answer.
func (g *Guard) Pause() { g.timer.Stop() }

// Resume starts the clock again.
func (g *Guard) Resume() { g.timer.Reset(stall) }

// Close stops the clock and ends the request's context.
func (g *Guard) Close() {
	g.Pause()
	g.cancel(nil)
}

// Explain returns ErrStalled if err is the end of a stalled request, otherwise err.
func (g *Guard) Explain(err error) error {
	if err != nil && errors.Is(context.Cause(g.Context), ErrStalled) {
		return ErrStalled
	}
	return err
}
