package dynwatch_test

import (
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// TestSelectedAgainByAnEdit: an object that has left continues its chain when an edit of the config
// selects it again, so that no consumer takes the event for an old one.
func TestSelectedAgainByAnEdit(t *testing.T) {
	cases := map[string]struct {
		choose func(*dynwatch.Resource)
		leave  func(*fakeAPI)
		id     string // what the id of the object's last event begins with
	}{
		"the label of the object changed": {
			func(r *dynwatch.Resource) { r.LabelSelector = "on=yes" },
			func(api *fakeAPI) { api.put("a", "x", "no") },
			"uid-2:103:entered:103",
		},
		"the label of the Namespace changed": {
			func(r *dynwatch.Resource) { r.NamespaceSelector = "on=yes" },
			func(api *fakeAPI) { api.put("", "a", "no") },
			"uid-2:102:entered:103",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.put("", "a", "yes")
			wanted := things()
			c.choose(&wanted)
			r := start(t, api, wanted)
			r.state(dynwatch.Live)
			api.put("a", "x", "yes")
			r.caughtUp()
			c.leave(api)
			r.eventually("the object has left", func() bool { return r.lastOp("x") == event.Left })
			if err := r.manager.Apply([]dynwatch.Resource{things()}); err != nil {
				t.Fatal(err)
			}
			r.eventually("the object is back", func() bool { return r.lastOp("x") == event.Entered })
			api.put("a", "x", "yes")
			r.eventually("the object has changed", func() bool { return r.lastOp("x") == event.Modified })
			checkLegal(t, r.log.all())
			var ids []string
			for _, e := range r.log.all() {
				if e.Name == "x" {
					ids = append(ids, e.ID)
				}
			}
			if len(ids) != 4 || ids[2] != c.id {
				t.Errorf("ids %q, want %s as the third of four", ids, c.id)
			}
		})
	}
}

// lastOp is that of the last event of an object.
func (r *rig) lastOp(name string) (op event.Op) {
	for _, e := range r.log.all() {
		if e.Name == name && !e.Op.Control() {
			op = e.Op
		}
	}
	return op
}
