package event_test

import (
	"encoding/json"
	"testing"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
)

// TestRaw: with headers beside it the raw form is the object or what a control
// record has; on its own it is a whole event unless it is the present state.
func TestRaw(t *testing.T) {
	const object = `{"kind":"Pod","specversion":"no"}`
	data := form.CloseData(append(form.OpenData(nil), object...))
	final := form.CloseDeletedData(append(form.OpenData(nil), object...), true)
	tests := map[string]struct {
		op   event.Op
		data []byte
		body string
		line bool // is the object alone
	}{
		"snapshot":          {event.Snapshot, data, object, true},
		"added":             {event.Added, data, object, true},
		"modified":          {event.Modified, data, object, true},
		"entered":           {event.Entered, data, object, true},
		"left":              {event.Left, data, object, false},
		"deleted":           {event.Deleted, final, object, false},
		"identity":          {event.Deleted, form.IdentityData(), "", false},
		"synced":            {event.Synced, nil, "", false},
		"gap":               {event.Gap, nil, "", false},
		"state":             {event.State, form.StateData("live", ""), `{"state":"live"}`, false},
		"data of other use": {event.Modified, []byte(`{"patch":[]}`), "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := event.Event{ID: "u:1", Op: tt.op, Name: "web", Data: tt.data}
			if got := string(e.Raw()); got != tt.body {
				t.Errorf("Raw = %s, want %s", got, tt.body)
			}
			want := string(e.AppendJSON([]byte("before ")))
			if tt.line {
				want = "before " + object
			}
			line := e.AppendRaw([]byte("before "))
			if string(line) != want {
				t.Errorf("AppendRaw = %s, want %s", line, want)
			}
			if !json.Valid(line[len("before "):]) {
				t.Errorf("%s is no JSON", line)
			}
		})
	}
}
