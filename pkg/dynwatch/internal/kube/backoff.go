package kube

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Backoff are the pauses between attempts: the first one, and each twice as long, up to most. The
// jitter keeps the targets of a process from attempts at one time.
func Backoff(first, most time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Factor: 2, Jitter: 0.5, Steps: 30, Cap: most}
}
