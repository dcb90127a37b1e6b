package kube

import (
	"context"
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
)

// Openings lets a number of targets open their watch at a time, so that a wildcard over
// thousands of resources, or the restart of an API server, is no burst of requests. Its
// methods may be called concurrently.
type Openings struct {
	// Longest is openingTime, unless a test changes it before the first target begins.
	Longest time.Duration

	pace  *pace
	turns chan struct{}
}

// NewOpenings makes openings for which no target waits. None begins while the server is overloaded.
func NewOpenings(p *pace) *Openings {
	return &Openings{Longest: openingTime, pace: p, turns: make(chan struct{}, openingsAtOnce)}
}

// Begin waits until the caller may open its watch, and calls beat meanwhile. The caller calls
// end when the watch is open, any number of times. If ctx ends, Begin returns at once.
func (o *Openings) Begin(ctx context.Context, beat func(), tick time.Duration) (end func()) {
	for longest := time.Now().Add(PaceLongest); ; {
		turns, wait := o.turns, min(tick, o.Longest)
		if pause := min(o.pace.Closed(""), time.Until(longest)); pause > 0 {
			turns, wait = nil, min(wait, pause)
		}
		timer := time.NewTimer(wait)
		select {
		case turns <- struct{}{}:
			timer.Stop()
			return endOfTurn(o.turns, o.Longest)
		case <-timer.C:
			beat()
		case <-ctx.Done():
			timer.Stop()
			return func() {}
		}
	}
}
