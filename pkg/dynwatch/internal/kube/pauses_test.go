package kube

import (
	"testing"
	"testing/synctest"
	"time"
)

// Whenever they look at the clock, all targets meet at the same instants, and never at
// once.
func TestUntilNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{time.Second, 10 * time.Second, 7 * time.Millisecond} {
			for _, later := range []time.Duration{0, 1, d/3 + 1, d - 1, d, d + 1} {
				<-time.After(later)
				wait := UntilNext(d)
				if wait <= 0 || wait > d {
					t.Errorf("at %v one waits %v for the next %v", time.Now(), wait, d)
				}
				if at := time.Now().Add(wait); !at.Equal(at.Truncate(d)) {
					t.Errorf("at %v one waits until %v, no multiple of %v", time.Now(), at, d)
				}
			}
		}
	})
}
