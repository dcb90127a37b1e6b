package feed

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// Limits bound what is spent on one gap of one target.
type Limits struct {
	// Requests and time bound the walks, width how many requests they have open.
	Requests int
	Time     time.Duration
	Width    int
	// Bodies is how many bytes of older states of one name a walk holds.
	Bodies int
	// Suspects bounds what an audit keeps in mind.
	Suspects int
}

// DefaultLimits are those of the daemon.
func DefaultLimits() Limits {
	return Limits{
		Requests: kube.WalkRequests, Time: 30 * time.Second, Width: 8, Bodies: 4 << 20, Suspects: 10_000,
	}
}
