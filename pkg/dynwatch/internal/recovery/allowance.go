package recovery

import (
	"context"
	"time"
)

// Allowance is the time for a walk's requests. All but asking belongs to one
// goroutine.
type Allowance struct {
	asking context.Context //nolint:containedctx // ends when the time is used up
	end    context.CancelFunc
	timer  *time.Timer
	until  time.Time
	// paused is since when the time is stopped, zero if it is not.
	paused time.Time
}

// NewAllowance begins one.
func NewAllowance(ctx context.Context, left time.Duration) *Allowance {
	a := &Allowance{until: time.Now().Add(left)}
	a.asking, a.end = context.WithCancel(ctx)
	a.timer = time.AfterFunc(left, a.end)
	return a
}

// Stop ends the count, not the walk.
func (a *Allowance) Stop() { a.timer.Stop() }

// Pause stops the time until Resume. Nil does nothing.
func (a *Allowance) Pause() {
	if a != nil && a.timer.Stop() {
		a.paused = time.Now()
	}
}

// Resume ends a pause.
func (a *Allowance) Resume() {
	if a == nil || a.paused.IsZero() {
		return
	}
	a.until = a.until.Add(time.Since(a.paused))
	a.paused = time.Time{}
	a.timer.Reset(time.Until(a.until))
}
