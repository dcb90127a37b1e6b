package feed

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// Timing holds the periods of a target's loop.
type Timing struct {
	listwatch.Timing
	catalog.Periods
	// StaleTold is how long a target must be stale before a state event says so: quiet
	// watches are opened again all the time.
	StaleTold time.Duration
	// audit is the time from one audit to the next, give or take a quarter; 0 for
	// none.
	AuditEvery time.Duration
}

// DefaultTiming are the periods of the daemon.
func DefaultTiming() Timing {
	return Timing{
		Timing: listwatch.Timing{
			Silence: 3 * time.Minute, Reach: 2 * time.Minute, Lag: 30 * time.Second,
			Failing: time.Minute, Tick: 15 * time.Second,
			Backoff: firstPause, BackoffCap: longestPause, WaitingCap: waitingPause, DeniedCap: deniedPause,
		},
		StaleTold:  10 * time.Second,
		Periods:    catalog.Periods{Noticed: time.Minute, First: 100 * time.Millisecond, Most: time.Second, Lasting: 30 * time.Second, Unserved: 10 * time.Second, Withdrawn: 10 * time.Minute},
		AuditEvery: time.Hour,
	}
}
