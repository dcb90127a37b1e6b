package feed

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// The pauses after errors of the API server. A pause grows from the first to the longest one; it
// begins again with the first after progress ([Feed.ResetPause]). The target pauses in
// target/failure.go. Discovery and Namespaces use the same periods.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 30 * time.Second
	// waitingPause is the longest pause of a target whose resource is not served.
	waitingPause = 5 * time.Second
	// deniedPause is the longest pause of a watch of metadata that the credentials do not allow.
	deniedPause = 5 * time.Minute
)

// ResetPause begins again with the shortest pause.
func (t *Feed) ResetPause() {
	t.Pause = kube.Backoff(t.Timing.Backoff, t.Timing.BackoffCap)
}
