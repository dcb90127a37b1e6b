package kube

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// openingsAtOnce is how many targets start, or open their watch again, at a time. The
	// API server's priority and fairness queues about 300 requests of one client, and
	// refuses those beyond.
	openingsAtOnce = 64
	// openingTime is how long a target keeps its turn at most. A first list may take
	// minutes, and a server may hang: neither holds up the targets behind.
	openingTime = 2 * time.Second
	// openingsLogged is the time between two log lines about the progress.
	openingsLogged = 10 * time.Second
)

// Openings lets a number of targets open their watch at a time, so that a wildcard over
// thousands of resources, or the restart of an API server, is no burst of requests. Its
// methods may be called concurrently.
type Openings struct {
	// Longest is openingTime, unless a test changes it before the first target begins.
	Longest time.Duration

	logger  *slog.Logger
	turns   chan struct{}
	waiting atomic.Int64

	mu sync.Mutex // for a moment only
	// until is when the API server takes requests again: it asked for a pause. since is when
	// the first pause of this minute began.
	until, since time.Time
	// logged is when the progress was logged last, zero if nothing waits.
	logged time.Time
}

// NewOpenings makes openings for which no target waits.
func NewOpenings(logger *slog.Logger) *Openings {
	return &Openings{Longest: openingTime, logger: logger, turns: make(chan struct{}, openingsAtOnce)}
}

// Begin waits until the caller may open its watch, and calls beat meanwhile. The caller calls
// end when the watch is open, any number of times. If ctx ends, Begin returns at once.
func (o *Openings) Begin(ctx context.Context, beat func(), tick time.Duration) (end func()) {
	if d := o.paused(); d == 0 && o.take() {
		return endOfTurn(o.turns, o.Longest)
	}
	o.waiting.Add(1)
	defer o.waited()
	timer := time.NewTicker(min(tick, o.Longest))
	defer timer.Stop()
	for {
		turns := o.turns
		var pause <-chan time.Time
		if d := o.paused(); d > 0 {
			turns, pause = nil, time.After(d)
		}
		select {
		case turns <- struct{}{}:
			return endOfTurn(o.turns, o.Longest)
		case <-pause:
		case <-timer.C:
			beat()
			o.logProgress()
		case <-ctx.Done():
			return func() {}
		}
	}
}

// take takes a turn if one is free.
func (o *Openings) take() bool {
	select {
	case o.turns <- struct{}{}:
		return true
	default:
		return false
	}
}

// Pause has no target begin for some time: the API server refused a request. Of a minute,
// pauses take PaceLongest at most: they can all be about one resource, whose own server refuses
// it, and must not keep the others from opening their watches.
func (o *Openings) Pause(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if now.Sub(o.since) >= time.Minute {
		o.since = now
	}
	until := now.Add(min(d, PaceLongest-now.Sub(o.since)))
	if until.After(o.until) {
		o.until = until
	}
}

// paused returns how long no turn may begin.
func (o *Openings) paused() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(0, time.Until(o.until))
}

// logProgress logs how many targets wait, every so often.
func (o *Openings) logProgress() {
	o.mu.Lock()
	due := time.Since(o.logged) >= openingsLogged
	if due {
		o.logged = time.Now()
	}
	o.mu.Unlock()
	if due {
		o.logger.Info("opening watches", "waiting", o.waiting.Load())
	}
}

// waited notes that one target less waits.
func (o *Openings) waited() {
	if o.waiting.Add(-1) > 0 {
		return
	}
	o.mu.Lock()
	logged := !o.logged.IsZero()
	o.logged = time.Time{}
	o.mu.Unlock()
	if logged {
		o.logger.Info("every waiting watch was opened")
	}
}
