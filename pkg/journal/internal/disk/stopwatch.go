package disk

import (
	"sync/atomic"
	"time"
)

// Stopwatch says how long a use of the disk has taken so far: one that hangs gives no error. The zero
// value is ready. One goroutine starts and stops it; Elapsed may be called concurrently, and never blocks.
type Stopwatch struct{ began atomic.Int64 } // nanoseconds since 1970, 0 between uses

// Start begins a use.
func (s *Stopwatch) Start() { s.began.Store(time.Now().UnixNano()) }

// Stop ends it.
func (s *Stopwatch) Stop() { s.began.Store(0) }

// Elapsed is the time since the use in progress began, 0 without one.
func (s *Stopwatch) Elapsed() time.Duration {
	if began := s.began.Load(); began != 0 {
		return time.Since(time.Unix(0, began))
	}
	return 0
}
