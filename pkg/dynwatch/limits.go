package dynwatch

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// limits bound what is spent on one gap of one target.
type limits struct {
	// requests and time bound the walks, width how many requests they have open.
	requests int
	time     time.Duration
	width    int
	// patience bounds how long a target waits for readers of the log until it is live
	// again. Etcd keeps its history for five minutes.
	patience time.Duration
	// bodies is how many bytes of older states of one name a walk holds.
	bodies int
	// revisions bounds a range that is listed one by one, objects the sum of what
	// those lists hold.
	revisions uint64
	objects   int
	// suspects bounds what an audit keeps in mind.
	suspects int
}

func defaultLimits() limits {
	return limits{
		requests: kube.WalkRequests, time: 30 * time.Second, width: 8, patience: time.Minute, bodies: 4 << 20,
		revisions: 200, objects: 200_000, suspects: 10_000,
	}
}
