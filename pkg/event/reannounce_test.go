package event_test

import (
	"testing"

	"github.com/informd/informd/pkg/event"
)

func TestReannouncedIDs(t *testing.T) {
	for want, got := range map[string]string{
		"u:12:r7":                  event.ReannouncedID("u", 12, 7, 0),
		"u:12:r7:e3":               event.ReannouncedID("u", 12, 7, 3),
		"core/pods:5:synced:s7":    event.ResnapshotID("core/pods", 5, 7, 0, false),
		"core/pods:5:synced:r7":    event.ResnapshotID("core/pods", 5, 7, 0, true),
		"core/pods:5:synced:r7:e2": event.ResnapshotID("core/pods", 5, 7, 2, true),
	} {
		if got != want {
			t.Errorf("id = %q, want %q", got, want)
		}
	}
}

func TestRun(t *testing.T) {
	for id, want := range map[string]uint64{
		"u:12:r7": 7, "u:12:r7:e3": 7, "u:12": 0, "u:12:e3": 0, "u:deleted": 0, "u:12:left:15": 0,
		"u:12:rx": 0, "u:12:r": 0, "": 0, "r7": 7, ":e1": 0, "u:12:r-1": 0, "u:12:r18446744073709551616": 0,
	} {
		if got := event.Run(id); got != want {
			t.Errorf("Run(%q) = %d, want %d", id, got, want)
		}
	}
}

func TestReannounced(t *testing.T) {
	for name, c := range map[string]struct {
		event event.Event
		want  bool
	}{
		"again":          {event.Event{Op: event.Snapshot, ResourceVersion: 7, PrevResourceVersion: 7}, true},
		"first":          {event.Event{Op: event.Snapshot, ResourceVersion: 7}, false},
		"newly selected": {event.Event{Op: event.Snapshot, ResourceVersion: 7, PrevResourceVersion: 5}, false},
		"a rollback":     {event.Event{Op: event.Modified, ResourceVersion: 7, PrevResourceVersion: 7}, false},
		"a record":       {event.Event{Op: event.Synced, ResourceVersion: 7}, false},
	} {
		if got := c.event.Reannounced(); got != c.want {
			t.Errorf("%s: Reannounced = %t", name, got)
		}
	}
}
