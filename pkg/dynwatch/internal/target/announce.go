package target

import (
	"context"
	"time"

	"github.com/informd/informd/pkg/event"
)

// longAppend is how long an append may take without a backlog of the watch to be expected.
const longAppend = time.Second

// append appends events to the log, and blocks while the log is full.
func (t *Target) append(ctx context.Context, events []event.Event) error {
	err := t.write(ctx, t.Log.Append, events)
	if err == nil {
		t.Status.Appended(events)
	}
	return err
}

// forget has the log forget objects, and blocks while the log is full.
func (t *Target) forget(ctx context.Context, objects []event.Event) error {
	return t.write(ctx, t.Log.Forget, objects)
}

func (t *Target) write(ctx context.Context, call func(context.Context, []event.Event) error, events []event.Event) error {
	t.Status.Block()
	err := call(ctx, events)
	if t.Status.Unblock() > longAppend {
		t.stalled = time.Now()
	}
	t.Status.Alive()
	return err
}
