package jetstream

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/event"
)

// SweepObjects removes the bodies that are older than grace and that no event
// refers to.
func (j *Journal) SweepObjects(ctx context.Context, grace time.Duration) error {
	return j.janitor.sweepObjects(ctx, grace)
}

// Look does now what is done every few seconds.
func (j *Journal) Look(ctx context.Context) { j.look(ctx) }

// SetStandstill replaces for how long a cursor that is waited for may commit nothing.
func (j *Journal) SetStandstill(d time.Duration) { j.standstill = d }

// Remembered is how many sequences are kept in mind of subjects that Await was asked
// about, and about how many may be.
func (j *Journal) Remembered() (held, limit int) {
	j.heads.mu.Lock()
	defer j.heads.mu.Unlock()
	return j.heads.held, maxRecent + 1
}

// Message is what is published of an event.
func (c *Config) Message(e *event.Event) *nats.Msg { return c.newMessage(e) }
