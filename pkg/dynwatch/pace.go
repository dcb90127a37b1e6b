package dynwatch

import (
	"context"
	"time"
)

// pace keeps what many targets ask for at once, when an API server comes back or
// history was lost, from being a burst: comparisons and look-ups of all targets
// together have so many requests open at a time.
type pace chan struct{}

const (
	paceWidth = 8
	// paceWait is how long a request waits for its turn at most: those that hang
	// must not hold up the targets that could go on.
	paceWait = 2 * time.Second
)

func newPace() pace { return make(pace, paceWidth) }

// begin waits for a turn. End gives it back.
func (p pace) begin(ctx context.Context) (end func()) {
	timer := time.NewTimer(paceWait)
	defer timer.Stop()
	select {
	case p <- struct{}{}:
		return func() { <-p }
	case <-timer.C:
	case <-ctx.Done():
	}
	return func() {}
}
