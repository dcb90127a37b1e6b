package feed

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// Limits bound what is spent on one gap of one target.
type Limits struct {
	// Requests and time bound the walks, width how many requests they have open.
	Requests int
	Time     time.Duration
	Width    int
	// Patience bounds how long a target waits for readers of the log until it is live
	// again. Etcd keeps its history for five minutes.
	Patience time.Duration
	// Bodies is how many bytes of older states of one name a walk holds.
	Bodies int
	// Revisions bounds a range that is listed one by one, objects the sum of what
	// those lists hold.
	Revisions uint64
	Objects   int
	// Suspects bounds what an audit keeps in mind.
	Suspects int
}

// DefaultLimits are those of the daemon.
func DefaultLimits() Limits {
	return Limits{
		Requests: kube.WalkRequests, Time: 30 * time.Second, Width: 8, Patience: time.Minute, Bodies: 4 << 20,
		Revisions: 200, Objects: 200_000, Suspects: 10_000,
	}
}

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
	// Clock is the clock of scheduled re-snapshots.
	Clock func() time.Time
}

// DefaultTiming are the periods of the daemon.
func DefaultTiming() Timing {
	return Timing{
		Timing: listwatch.Timing{
			Silence: 3 * time.Minute, Reach: 2 * time.Minute, Tick: 15 * time.Second,
			Backoff: 200 * time.Millisecond, BackoffCap: 30 * time.Second, WaitingCap: 5 * time.Second, DeniedCap: 5 * time.Minute,
		},
		StaleTold:  10 * time.Second,
		Periods:    catalog.Periods{Noticed: time.Minute, First: 100 * time.Millisecond, Most: time.Second, Lasting: 30 * time.Second, Unserved: 10 * time.Second, Withdrawn: 10 * time.Minute},
		AuditEvery: time.Hour, Clock: time.Now,
	}
}
