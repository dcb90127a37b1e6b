package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Backoff are the pauses between attempts: the first one, and each twice as long, up to most. The
// jitter keeps the targets of a process from attempts at one time.
func Backoff(first, most time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Factor: 2, Jitter: 0.5, Steps: 30, Cap: most}
}

// Sleep waits, or returns why ctx ended.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// UntilNext returns how long it is until the clock shows a multiple of d. Work that idle targets
// have every d they do together then: the process wakes up once for all of them, which
// costs more than the work.
func UntilNext(d time.Duration) time.Duration {
	now := time.Now()
	return now.Truncate(d).Add(d).Sub(now)
}
