package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// quietFor is how long a client uses no CPU until a phase is taken to be over.
	quietFor = 250 * time.Millisecond
	pollFor  = 5 * time.Millisecond
	// idleTime and a part in idlePart of the time that has passed are still no CPU time: a
	// server in the process has timers.
	idleTime = 200 * time.Microsecond
	idlePart = 100
	// patience is how long a phase may take.
	patience = 5 * time.Minute
)

// phase is what a client has used for so many events.
type phase struct {
	Events int
	// CPU and Wall are until it was done with the last one.
	CPU, Wall time.Duration
	// Mallocs are its allocations meanwhile, 0 if it does not say.
	Mallocs float64
}

// PerEvent is the CPU time of one event, in microseconds.
func (p phase) PerEvent() float64 {
	return float64(p.CPU.Nanoseconds()) / 1e3 / float64(max(1, p.Events))
}

// Rate is how many events there were a second.
func (p phase) Rate() float64 { return float64(p.Events) / p.Wall.Seconds() }

// begin is the border at which a phase begins.
type border struct {
	at      time.Time
	cpu     time.Duration
	mallocs float64
}

func (c *client) border(mallocs float64) (border, error) {
	cpu, err := c.cpu()
	return border{time.Now(), cpu, mallocs}, err
}

// settle waits until the client is done with at least that many objects and updates,
// and returns what it has used since the border. The client is not asked before it
// has stopped to use CPU time, so that asking costs nothing.
func (c *client) settle(ctx context.Context, from border, objects, updates int64, events int) (phase, handled, error) {
	var last border
	for end := time.Now().Add(patience); ; {
		var err error
		if last, err = c.quiet(ctx, end); err != nil {
			return phase{}, handled{}, fmt.Errorf("%s: %w", c.kind, err)
		}
		h, err := c.count(ctx)
		if err == nil && h.objects >= objects && h.updates >= updates {
			p := phase{Events: events, CPU: last.cpu - from.cpu, Wall: last.at.Sub(from.at)}
			if from.mallocs > 0 {
				p.Mallocs = h.mallocs - from.mallocs
			}
			return p, h, nil
		}
		if time.Now().After(end) {
			return phase{}, h, fmt.Errorf("%s has handled %d objects and %d updates within %v, of %d and %d: %w", c.kind, h.objects, h.updates, patience, objects, updates, err)
		}
	}
}

// quiet waits until the client has used no CPU for a while, and returns when that
// began and what it had used by then.
func (c *client) quiet(ctx context.Context, end time.Time) (border, error) {
	busy, err := c.border(0)
	tick := time.NewTicker(pollFor)
	defer tick.Stop()
	for err == nil && time.Since(busy.at) < quietFor && time.Now().Before(end) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return busy, ctx.Err()
		}
		var now border
		if now, err = c.border(0); now.cpu-busy.cpu > idleTime+now.at.Sub(busy.at)/idlePart {
			busy = now
		}
	}
	return busy, err
}
