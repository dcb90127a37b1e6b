package target

import (
	"context"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// longAppend is how long an append may take without a backlog of the watch to be expected.
const longAppend = time.Second

// appends are those to the log, which blocks while it is full.
type appends struct {
	log    journal.Log
	status *status.Status
	// stalled is when an append ended that took long: the watch has perhaps brought
	// more by then than was read of it.
	stalled time.Time
}

// append appends events to the log, and blocks while the log is full.
func (a *appends) append(ctx context.Context, events []event.Event) error {
	err := a.write(ctx, a.log.Append, events)
	if err == nil {
		a.status.Appended(events)
	}
	return err
}

// forget has the log forget objects, and blocks while the log is full.
func (a *appends) forget(ctx context.Context, objects []event.Event) error {
	return a.write(ctx, a.log.Forget, objects)
}

func (a *appends) write(ctx context.Context, call func(context.Context, []event.Event) error, events []event.Event) error {
	a.status.Block()
	err := call(ctx, events)
	if a.status.Unblock() > longAppend {
		a.stalled = time.Now()
	}
	a.status.Alive()
	return err
}
