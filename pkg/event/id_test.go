package event_test

import (
	"testing"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
)

// TestRunInID: the run stands before the epoch, and takes the place of the one before.
func TestRunInID(t *testing.T) {
	for name, c := range map[string]struct {
		id         string
		run, epoch uint64
		want       string
	}{
		"object":          {form.ObjectID("u", 12, 0), 7, 0, "u:12:r7"},
		"later epoch":     {form.ObjectID("u", 12, 3), 7, 3, "u:12:r7:e3"},
		"deleted":         {form.DeletedID("u", 3), 7, 3, "u:deleted:r7:e3"},
		"left":            {form.SelectionID("u", 12, event.Left, 15, 0), 7, 0, "u:12:left:15:r7"},
		"begin":           {boundID("core/pods", event.Begin, 5, 0), 7, 0, "core/pods:5:begin:r7"},
		"synced":          {boundID("core/pods@shop", event.Synced, 5, 2), 7, 2, "core/pods@shop:5:synced:r7:e2"},
		"gap":             {form.GapID("core/pods", 5, 9, 1), 7, 1, "core/pods:5-9:gap:r7:e1"},
		"another run":     {"u:12:r5", 7, 0, "u:12:r7"},
		"and epoch":       {"u:12:r5:e1", 7, 1, "u:12:r7:e1"},
		"no run any more": {"u:12:r5:e1", 0, 1, "u:12:e1"},
	} {
		e := event.Event{ID: c.id, Epoch: c.epoch}
		e.SetRun(c.run)
		if e.ID != c.want || e.Run != c.run {
			t.Errorf("%s: id %q, run %d, want %q", name, e.ID, e.Run, c.want)
		}
	}
}

func TestParseID(t *testing.T) {
	type parts struct {
		what       string
		run, epoch uint64
	}
	for id, want := range map[string]parts{
		"u:12": {"u:12", 0, 0}, "u:12:r7": {"u:12", 7, 0}, "u:12:r7:e3": {"u:12", 7, 3}, "u:12:e3": {"u:12", 0, 3},
		"u:deleted": {"u:deleted", 0, 0}, "u:12:left:15": {"u:12:left:15", 0, 0}, "u:12:rx": {"u:12:rx", 0, 0},
		"u:12:r": {"u:12:r", 0, 0}, "": {"", 0, 0}, "r7": {"r7", 0, 0}, ":e1": {"", 0, 1}, "u:12:r-1": {"u:12:r-1", 0, 0},
		"u:12:r18446744073709551616": {"u:12:r18446744073709551616", 0, 0}, "u:12:e1:r7": {"u:12:e1", 7, 0}, "u:12:r0": {"u:12:r0", 0, 0},
	} {
		var got parts
		if got.what, got.run, got.epoch = event.ParseID(id); got != want {
			t.Errorf("ParseID(%q) = %+v, want %+v", id, got, want)
		}
	}
}
