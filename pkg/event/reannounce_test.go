package event_test

import (
	"testing"

	"github.com/informd/informd/pkg/event"
)

func TestReannounced(t *testing.T) {
	for name, c := range map[string]struct {
		event event.Event
		want  bool
	}{
		"again":          {event.Event{Op: event.Snapshot, ResourceVersion: 7, PrevResourceVersion: 7, Run: 3, Replay: true}, true},
		"held back":      {event.Event{Op: event.Snapshot, ResourceVersion: 7, PrevResourceVersion: 5, Run: 3, Replay: true}, true},
		"first":          {event.Event{Op: event.Snapshot, ResourceVersion: 7, Run: 3}, false},
		"newly selected": {event.Event{Op: event.Snapshot, ResourceVersion: 7, PrevResourceVersion: 5}, false},
		"a new sink's":   {event.Event{Op: event.Snapshot, ResourceVersion: 7, PrevResourceVersion: 5, Run: 3}, false},
		"a rollback":     {event.Event{Op: event.Modified, ResourceVersion: 7, PrevResourceVersion: 7}, false},
		"a rewind":       {event.Event{Op: event.Modified, ResourceVersion: 7, PrevResourceVersion: 5, Run: 3, Replay: true}, false},
		"a record":       {event.Event{Op: event.Synced, ResourceVersion: 7, Run: 3, Replay: true}, false},
	} {
		if got := c.event.Reannounced(); got != c.want {
			t.Errorf("%s: Reannounced = %t", name, got)
		}
	}
}
