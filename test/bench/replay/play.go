package replay

import (
	"context"
	"time"
)

// playTick is how often events happen that have a rate.
const playTick = time.Millisecond

// Play lets events happen: all at once if rate is 0, which is as fast as the clients
// take them, else so many per second. It returns when the last one has happened, or
// ctx has ended, which is not when the clients have been sent it: see [Stats].
func (s *Server) Play(ctx context.Context, events uint64, rate float64) {
	if rate == 0 {
		s.history.advance(events)
		return
	}
	tick := time.NewTicker(playTick)
	defer tick.Stop()
	began, done := time.Now(), uint64(0)
	for done < events {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if due := min(events, uint64(time.Since(began).Seconds()*rate)); due > done {
			s.history.advance(due - done)
			done = due
		}
	}
}
