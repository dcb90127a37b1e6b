package dynwatch_test

import (
	"fmt"
	"net/http"
	"strings"
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
			api := newFakeAPI(t, "/a yes")
			wanted := things()
			c.choose(&wanted)
			r := start(t, api, wanted)
			r.state(dynwatch.Live)
			api.put("a", "x", "yes")
			r.caughtUp()
			c.leave(api)
			r.eventually("the object has left", func() bool { return r.lastOp("x") == event.Left })
			must(t, r.manager.Apply([]dynwatch.Resource{things()}))
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

// TestSelectedAgainDuringALoss: labels of a Namespace select an object again while informd is down, for
// longer than etcd keeps history, and before a loss of history was made up for.
func TestSelectedAgainDuringALoss(t *testing.T) {
	api := newFakeAPI(t, "/a yes", "/b yes")
	wanted := things()
	wanted.NamespaceSelector = "on=yes"
	r := start(t, api, wanted)
	r.state(dynwatch.Live)
	api.put("a", "x", "yes")
	r.caughtUp()
	api.put("", "a", "no")
	r.eventually("the object has left", func() bool { return r.lastOp("x") == event.Left })
	api.put("b", "y", "")
	r.caughtUp()
	api.keepRefusing(func(r *http.Request) bool { // all lists but that for the revision
		return ofThings(r) && verbOf(r) == "list" && r.URL.Query().Get("fieldSelector") == ""
	}, answers()["500"])
	r.lose(func(api *fakeAPI) { api.put("b", "y", "") })
	r.eventually("the loss is marked", func() bool {
		return strings.Contains(string(r.log.marksNow()["example.com/things"]), "expired")
	})
	r.stop(false)
	api.put("", "a", "yes")
	api.put("b", "y", "")
	api.admit()
	api.forget()
	api.compact()
	r.begin(wanted)
	r.eventually("the object is back", func() bool { return r.lastOp("x") == event.Entered })
	r.caughtUp()
	checkLegal(t, r.log.all())
}

// TestLeftBeforeALaterListOfItsNamespace: a namespace begins to match, and its list is ahead of the watch, which
// then expires. An older list of the recovery still holds an object that had left before and does not match
// since: the list of the namespace was later, so nothing is said of it.
func TestLeftBeforeALaterListOfItsNamespace(t *testing.T) {
	const fillers = 120 // so many differences that the recovery takes the whole list
	api := newFakeAPI(t, "/team-a yes", "/team-b yes", "team-a/x yes")
	fill := func() (rv uint64) {
		for i := range fillers {
			rv = api.put("team-b", fmt.Sprint("b", i), "yes")
		}
		return rv
	}
	fill()
	of := labelled()
	of.LabelSelector = "on=yes"
	r := live(t, api, of)
	api.put("", "team-a", "no")
	r.eventually("x has left", func() bool { return count(r.log.all(), event.Left) == 1 })
	api.put("team-b", "b0", "yes")
	r.caughtUp()
	before := len(r.log.all())
	api.do(func() { api.slow = notOfNamespaces })
	first := api.put("team-a", "y", "yes")
	oldest := fill()
	api.put("team-a", "x", "no")
	api.do(func() { api.compacted = first })
	api.put("", "team-a", "yes")
	r.eventually("y is there", func() bool { return len(thingLines(r.log.all()[before:])) > 0 })
	api.do(func() { api.generation++; api.oldest = oldest; api.slow = nil })
	r.caughtUp()
	if state, there := view(r.log.all(), false)["team-a/x"]; there {
		t.Errorf("a consumer has x, which does not match: %s", state)
	}
}
