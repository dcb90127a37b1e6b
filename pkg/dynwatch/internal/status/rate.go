package status

import (
	"math"
	"sync"
	"time"
)

// halfLife is the time after which an event counts half in a rate.
const halfLife = time.Minute

// rate is how many events come per second, and keeps two numbers for that. The
// caller says what time it is. Its methods may be called concurrently.
type rate struct {
	start time.Time

	mu sync.Mutex
	// weight is what all events count together at the time at.
	weight float64
	at     time.Time
}

// newRate begins a rate.
func newRate(now time.Time) *rate { return &rate{start: now, at: now} }

// add counts n events that come now.
func (r *rate) add(n int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.weight = r.weight*faded(now.Sub(r.at)) + float64(n)
	r.at = now
}

// perSecond is the rate now.
func (r *rate) perSecond(now time.Time) float64 {
	r.mu.Lock()
	weight := r.weight * faded(now.Sub(r.at))
	r.mu.Unlock()
	// The seconds fade as the events do: a steady rate shows as such from the
	// beginning. The first one counts as a whole, so that it is divided by something.
	seconds := (1 - faded(max(now.Sub(r.start), time.Second))) * halfLife.Seconds() / math.Ln2
	return weight / seconds
}

// faded is what is left after that time of what counted 1.
func faded(age time.Duration) float64 {
	return math.Exp2(-max(age, 0).Seconds() / halfLife.Seconds())
}
