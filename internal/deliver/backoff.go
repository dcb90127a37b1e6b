package deliver

import (
	"math/rand/v2"
	"time"
)

// The bounds of the pause between two attempts.
const (
	minPause = 200 * time.Millisecond
	maxPause = 30 * time.Second
)

// backoff counts the failures since the last progress. Its zero value is ready.
type backoff struct{ failures int }

func (b *backoff) reset() { b.failures = 0 }

// next returns how long to wait after one more failure: anything up to a bound
// that doubles each time ("full jitter", so that many do not come back at once),
// but never less than asked.
func (b *backoff) next(asked time.Duration) time.Duration {
	bound := maxPause
	if b.failures < 8 { // 0.2 s * 2^8 is beyond the maximum
		bound = min(bound, minPause<<b.failures)
	}
	b.failures++
	return max(asked, rand.N(bound)) //nolint:gosec // jitter needs no secrecy
}
