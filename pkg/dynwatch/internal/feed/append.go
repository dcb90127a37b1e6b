package feed

import (
	"context"
	"time"

	"github.com/informd/informd/pkg/event"
)

// longAppend is how long an append may take without a backlog of the watch to be expected.
const longAppend = time.Second

// append appends events to the log, and blocks while the log is full.
func (t *Feed) append(ctx context.Context, events []event.Event) error {
	t.Status.Block()
	err := t.Log.Append(ctx, events)
	if t.Status.Unblock() > longAppend {
		t.Stalled = time.Now()
	}
	t.Status.Alive()
	if err == nil {
		t.Status.Appended(events)
	}
	return err
}
