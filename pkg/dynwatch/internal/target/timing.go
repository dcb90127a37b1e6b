package target

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// Timing holds the periods of a target's loop.
type Timing struct {
	listwatch.Timing
	catalog.Periods
	// StaleTold is how long a target must be stale before a state event says so: quiet
	// watches are opened again all the time.
	StaleTold time.Duration
	// AuditEvery is the time from one audit to the next, give or take a quarter; 0 for none.
	AuditEvery time.Duration
}

// DefaultTiming are the periods of the daemon.
func DefaultTiming() Timing {
	return Timing{
		Timing: listwatch.Timing{
			Silence: 3 * time.Minute, Reach: 2 * time.Minute, Lag: 30 * time.Second,
			Tick:    15 * time.Second,
			Backoff: firstPause, BackoffCap: longestPause, WaitingCap: waitingPause, DeniedCap: deniedPause,
		},
		StaleTold:  10 * time.Second,
		Periods:    catalog.Periods{Noticed: time.Minute, First: 100 * time.Millisecond, Most: time.Second, Lasting: 30 * time.Second, Unserved: 10 * time.Second, Withdrawn: 10 * time.Minute},
		AuditEvery: time.Hour,
	}
}

// The pauses after errors of the API server. A pause grows from the first to the longest one; it
// begins again with the first after progress. Discovery and Namespaces use the same periods.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 30 * time.Second
	// waitingPause is the longest pause of a target whose resource is not served.
	waitingPause = 5 * time.Second
	// deniedPause is the longest pause of a watch of metadata that the credentials do not allow.
	deniedPause = 5 * time.Minute
)

// stoppedTimer returns a timer that does not run.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// pause is the time between an error of the API server and the next attempt. It grows.
type pause struct {
	backoff        wait.Backoff
	first, longest time.Duration
}

// reset begins again with the shortest pause.
func (p *pause) reset() { p.backoff = kube.Backoff(p.first, p.longest) }

// Limits bound what is spent on one gap of one target.
type Limits struct {
	// Requests and time bound the walks, width how many requests they have open.
	Requests int
	Time     time.Duration
	Width    int
	// Bodies is how many bytes of older states of one name a walk holds.
	Bodies int
}

// DefaultLimits are those of the daemon.
func DefaultLimits() Limits {
	return Limits{Requests: kube.WalkRequests, Time: 30 * time.Second, Width: 8, Bodies: 4 << 20}
}
