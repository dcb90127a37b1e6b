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
		Requests: kube.WalkRequests, Time: 30 * time.Second, Width: 8, Bodies: 4 << 20,
		Revisions: 200, Objects: 200_000, Suspects: 10_000,
	}
}
