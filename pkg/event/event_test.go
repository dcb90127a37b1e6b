package event_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
)

func TestKeyAndSubject(t *testing.T) {
	namespaced := deployment(event.Modified)
	core := namespaced
	core.Group, core.Resource = "", "pods"
	clusterScoped := namespaced
	clusterScoped.Namespace, clusterScoped.Resource = "", "things"
	control := event.Event{Op: event.Synced, Target: "core/pods@shop", Resource: "pods"}
	for name, test := range map[string]struct {
		event        event.Event
		key, subject string
	}{
		"namespaced":     {namespaced, "apps/deployments/shop/web", "apps/deployments/shop/web"},
		"core":           {core, "core/pods/shop/web", "core/pods/shop/web"},
		"cluster-scoped": {clusterScoped, "apps/things//web", "apps/things/web"},
		"control":        {control, "core/pods@shop", "core/pods@shop"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.event.Key(); got != test.key {
				t.Errorf("Key = %q, want %q", got, test.key)
			}
			if got := test.event.Subject(); got != test.subject {
				t.Errorf("Subject = %q, want %q", got, test.subject)
			}
		})
	}
}

func TestOps(t *testing.T) {
	var control, ends []event.Op
	for _, op := range event.Ops() {
		if op.Control() {
			control = append(control, op)
		}
		if op.Ends() {
			ends = append(ends, op)
		}
	}
	if diff := cmp.Diff([]event.Op{event.Begin, event.Synced, event.Gap, event.State}, control); diff != "" {
		t.Errorf("control ops (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]event.Op{event.Deleted, event.Left}, ends); diff != "" {
		t.Errorf("ops that end an object (-want +got):\n%s", diff)
	}
	for _, e := range samples() {
		if !slices.Contains(event.Ops(), e.Op) {
			t.Errorf("Ops lacks %s", e.Op)
		}
	}
}

func TestSizeCountsWhatIsKept(t *testing.T) {
	e := deployment(event.Modified)
	before := e.Size()
	if before < len(e.Data) {
		t.Errorf("Size = %d, less than the data alone", before)
	}
	e.Data = append(e.Data, make([]byte, 1000)...)
	e.Name += strings.Repeat("n", 10)
	if got := e.Size() - before; got != 1010 {
		t.Errorf("1,010 more bytes count as %d", got)
	}
}

func TestObject(t *testing.T) {
	open := func(object string) []byte { return append(form.OpenData(nil), object...) }
	for _, object := range []string{
		`{}`, `{"a":1}`, `{"final":true}`, `{"a":1,"final":true}`, `{"a":1,"final":false}`,
		`{"object":{"final":false}}`, `{"a":"\",\"final\":true}"}`,
	} {
		for name, data := range map[string][]byte{
			"present":   form.CloseData(open(object)),
			"final":     form.CloseDeletedData(open(object), true),
			"not final": form.CloseDeletedData(open(object), false),
		} {
			e := event.Event{Data: data}
			if got := string(e.Object()); got != object {
				t.Errorf("%s: Object of %s = %s", name, data, got)
			}
			if len(data) > len(object)+form.DataOverhead {
				t.Errorf("%s: the data has %d bytes beside the object, DataOverhead is %d", name, len(data)-len(object), form.DataOverhead)
			}
		}
	}
}

// TestMembers: what stands beside the object is found by its name, and the object as if
// it were alone.
func TestMembers(t *testing.T) {
	open := func(object string) []byte { return append(form.OpenData(nil), object...) }
	members := []form.Member{
		{Name: "old", Value: []byte(`{"object":{"a":"}"}}`)},
		{Name: "changed", Value: []byte(`["a:{","b\"]","c\\"]`)},
		{Name: "n", Value: []byte(`-1.5e3`)},
		{Name: "t", Value: []byte(`true`)},
		{Name: "s", Value: []byte(`"\\\","`)},
		{Name: "empty", Value: []byte(`{}`)},
		{Name: "lists", Value: []byte(`[[],[{"a":[null,"]"]}],""]`)},
	}
	const object = `{"old":1,"final":true}`
	for name, data := range map[string][]byte{
		"present":   form.CloseData(open(object)),
		"final":     form.CloseDeletedData(open(object), true),
		"not final": form.CloseDeletedData(open(object), false),
		"identity":  form.IdentityData(),
	} {
		t.Run(name, func(t *testing.T) {
			alone := event.Event{Op: event.Deleted, Data: bytes.Clone(data)}
			e := event.Event{Op: event.Deleted, Data: form.AddMembers(alone.Data, members...)}
			if !json.Valid(e.Data) {
				t.Fatalf("%s is no JSON", e.Data)
			}
			for _, m := range members {
				if got := e.Member(m.Name); !bytes.Equal(got, m.Value) {
					t.Errorf("member %s of %s = %s, want %s", m.Name, e.Data, got, m.Value)
				}
			}
			if e.Member("object") != nil || e.Member("final") != nil || alone.Member("old") != nil {
				t.Error("Member gives what nobody has put in")
			}
			if !bytes.Equal(e.Object(), alone.Object()) {
				t.Errorf("Object of %s = %s, want %s", e.Data, e.Object(), alone.Object())
			}
			if !bytes.Equal(form.AddMembers(data), data) {
				t.Error("no members change the data")
			}
		})
	}
}

// TestDropChanges: only what a modified event has goes, and the bytes from before stay.
func TestDropChanges(t *testing.T) {
	const before = `{"oldObject":{"a":1},"changed":["a"],"patch":[],"fieldManager":{"manager":"m"},"ownerChain":[],"object":{"changed":1}}`
	for data, want := range map[string]string{
		before:                                   `{"fieldManager":{"manager":"m"},"ownerChain":[],"object":{"changed":1}}`,
		`{"changed":["a"],"object":{}}`:          `{"object":{}}`,
		`{"ownerChain":[],"object":{"patch":1}}`: `{"ownerChain":[],"object":{"patch":1}}`,
		`{"object":{}}`:                          `{"object":{}}`,
		`{"changed":["a"`:                        `{"changed":["a"`,
		``:                                       ``,
	} {
		shared := []byte(data)
		e := event.Event{Op: event.Snapshot, Data: shared}
		if e.DropChanges(); string(e.Data) != want || string(shared) != data {
			t.Errorf("%s becomes %s, want %s", shared, e.Data, want)
		}
	}
}

func TestObjectOfNone(t *testing.T) {
	for name, data := range map[string][]byte{
		"nil":      nil,
		"identity": form.IdentityData(),
		"foreign":  []byte(`{"other":{}}`),
		"cut":      []byte(`{"object":{"a":`),
		"cut name": []byte(`{"old`),
		"no colon": []byte(`{"old" 1,"object":{}}`),
		"no comma": []byte(`{"old":1`),
		"no data":  []byte(`{`),
		"no end":   []byte(`{"old":"\"`),
		"no list":  []byte(`{"old":[1,2`),
		"closed":   []byte(`{"old":]`),
		"nothing":  []byte(`{"old":,"object":{}}`),
	} {
		e := event.Event{Data: data}
		if got := e.Object(); got != nil {
			t.Errorf("%s: Object = %s, want nil", name, got)
		}
	}
}

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
