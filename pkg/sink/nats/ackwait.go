package nats

import (
	"sync"
	"time"
)

const (
	// shortestWait is the wait for a server that answers fast.
	shortestWait = 500 * time.Millisecond
	// election is how long the wait stays short while no answer comes.
	election = 15 * time.Second
	// margin is how many times longer the wait is than the slowest recent answer took.
	margin = 4
	// memory is how many answers it takes to halve what is remembered of a slow one.
	memory = 64
)

// ackWait is how long to wait for the answer of a JetStream server before sending the request again.
// Its methods may be called concurrently.
//
// A server that elects a leader loses requests in flight. A long wait for each of them would
// lengthen every election. A short wait would make a slow server take each request many
// times. So the wait is short, unless the server has answered slowly before, or has not
// answered for longer than an election takes.
type ackWait struct {
	longest time.Duration
	now     func() time.Time

	mu     sync.Mutex
	slow   time.Duration // what the slowest recent answer took
	silent time.Time     // since when no answer comes; zero: one came last
	grown  int           // how often the wait was doubled since the election should be over
}

// newAckWait returns a wait that is at most longest.
func newAckWait(longest time.Duration) *ackWait { return &ackWait{longest: longest, now: time.Now} }

// Now is how long to wait for a request that is sent now.
func (w *ackWait) Now() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := max(shortestWait, margin*w.slow)
	for range w.grown {
		if wait *= 2; wait >= w.longest {
			break
		}
	}
	return min(wait, w.longest)
}

// Answered says that an answer came, and what it took.
func (w *ackWait) Answered(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent, w.grown = time.Time{}, 0
	if took >= w.slow {
		w.slow = took
	} else {
		w.slow -= (w.slow - took) / memory
	}
}

// Unanswered says that no answer came in time.
func (w *ackWait) Unanswered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	switch {
	case w.silent.IsZero():
		w.silent = now
	case now.Sub(w.silent) >= election && w.grown < 10:
		w.grown++
	}
}
