package jetstream

import (
	"context"
	"time"
)

// SweepObjects removes the bodies that are older than grace and that no event
// refers to.
func (j *Journal) SweepObjects(ctx context.Context, grace time.Duration) error {
	return j.janitor.sweepObjects(ctx, grace)
}

// Look does now what is done every few seconds.
func (j *Journal) Look(ctx context.Context) { j.look(ctx) }
