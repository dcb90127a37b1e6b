package deliver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
)

// of makes an event about one object.
func of(op event.Op, group, resource, namespace string) event.Event {
	return event.Event{Op: op, Group: group, Resource: resource, Namespace: namespace, Name: "x"}
}

func TestRouteSelects(t *testing.T) {
	pod := of(event.Modified, "", "pods", "shop")
	web := of(event.Modified, "apps", "deployments", "team-a")
	node := of(event.Modified, "", "nodes", "")
	widget := of(event.Modified, "demo.example.com", "widgets", "shop")
	all := map[string]event.Event{"pod": pod, "web": web, "node": node, "widget": widget}
	for name, test := range map[string]struct {
		only []deliver.Match
		want []string
	}{
		"nothing given":     {nil, []string{"node", "pod", "web", "widget"}},
		"empty match":       {[]deliver.Match{{}}, []string{"node", "pod", "web", "widget"}},
		"core by emptiness": {[]deliver.Match{{Group: new("")}}, []string{"node", "pod"}},
		"core by name":      {[]deliver.Match{{Group: new("core")}}, []string{"node", "pod"}},
		"group glob":        {[]deliver.Match{{Group: new("*.example.com")}}, []string{"widget"}},
		"any group":         {[]deliver.Match{{Group: new("*")}}, []string{"node", "pod", "web", "widget"}},
		"resource":          {[]deliver.Match{{Resource: "pods"}}, []string{"pod"}},
		"resource in group": {[]deliver.Match{{Group: new("apps"), Resource: "pods"}}, nil},
		"namespace":         {[]deliver.Match{{Namespaces: []string{"shop"}}}, []string{"pod", "widget"}},
		"namespace glob":    {[]deliver.Match{{Namespaces: []string{"none", "team-*"}}}, []string{"web"}},
		"all namespaces":    {[]deliver.Match{{Namespaces: []string{"*"}}}, []string{"pod", "web", "widget"}},
		"any of two":        {[]deliver.Match{{Resource: "nodes"}, {Group: new("apps")}}, []string{"node", "web"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := route(t, true, test.only...)
			var got []string
			for name, e := range all {
				if r.Admits(&e) {
					got = append(got, name)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRouteOps: a condition is not about deletions, left and control events, but about a snapshot.
func TestRouteOps(t *testing.T) {
	ops := func(names ...event.Op) []event.Op { return names }
	const objects = "snapshot added modified deleted left entered"
	for name, test := range map[string]struct {
		match deliver.Match
		now   bool
		want  string
	}{
		"all":                         {deliver.Match{}, false, objects + " begin synced gap"},
		"start now":                   {deliver.Match{}, true, "added modified deleted left entered synced gap"},
		"named":                       {deliver.Match{Ops: ops("added")}, false, "added synced gap"},
		"named, start now":            {deliver.Match{Ops: ops("snapshot", "added")}, true, "added synced gap"},
		"deleted alone":               {deliver.Match{Ops: ops("deleted")}, false, "deleted synced gap"},
		"all of a snapshot":           {deliver.Match{Ops: ops("snapshot", "added")}, false, "snapshot added begin synced gap"},
		"no control events":           {deliver.Match{Control: []event.Op{}}, false, objects},
		"named, no control":           {deliver.Match{Ops: ops("added"), Control: []event.Op{}}, false, "added"},
		"no end of a snapshot":        {deliver.Match{Control: ops("begin", "gap")}, false, objects + " gap"},
		"bounds of a snapshot":        {deliver.Match{Control: ops("begin", "synced")}, false, objects + " begin synced"},
		"state alone":                 {deliver.Match{Ops: ops("added"), Control: ops("state")}, false, "added state"},
		"every control event":         {deliver.Match{Ops: ops("left"), Control: ops("begin", "synced", "gap", "state")}, false, "left synced gap state"},
		"never":                       {deliver.Match{When: always(false)}, false, "deleted left begin synced gap"},
		"always":                      {deliver.Match{When: always(true)}, false, objects + " begin synced gap"},
		"never, without the deleted":  {deliver.Match{When: always(false), Ops: ops("left"), Control: ops("synced")}, false, "left synced"},
		"never, with states":          {deliver.Match{When: always(false), Control: ops("state")}, false, "deleted left state"},
		"always, of some":             {deliver.Match{When: always(true), Ops: ops("added")}, false, "added synced gap"},
		"always, of another resource": {deliver.Match{When: always(true), Resource: "pods"}, false, ""},
		"fails":                       {deliver.Match{When: condition(failing)}, false, objects + " begin synced gap"},
		"fails, to be dropped":        {deliver.Match{When: condition(failing), DropFailed: true}, false, "deleted left begin synced gap"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			r := route(t, !test.now, test.match)
			for _, op := range event.Ops() {
				if e := of(op, "apps", "deployments", "shop"); r.Admits(&e) {
					got = append(got, string(op))
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("admitted ops (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRouteAdmits: a control record is about a whole target, so that the namespaces of a match say nothing about it.
// States go to those that ask for them. Trimmed events may be of any resource, so that every match with gap in control
// gets the gap. A sink that begins now gets what is announced again, but not what was there before.
func TestRouteAdmits(t *testing.T) {
	gap := event.Event{Op: event.Gap, Target: "apps/deployments@shop", Group: "apps", Resource: "deployments"}
	state := event.Event{Op: event.State, Target: "core/pods@shop", Resource: "pods"}
	trimmed := event.Event{Op: event.Gap, Target: event.AllTargets, Gap: &event.GapInfo{Reason: "trimmed", Trimmed: 3}}
	added := []event.Op{event.Added}
	none := []event.Op{}
	for name, test := range map[string]struct {
		event event.Event
		match deliver.Match // of a sink that starts now
		want  bool
	}{
		"gap of the resource":        {gap, deliver.Match{Group: new("apps"), Resource: "deployments"}, true},
		"gap, namespaces":            {gap, deliver.Match{Resource: "deployments", Namespaces: []string{"other"}}, true},
		"gap of another resource":    {gap, deliver.Match{Resource: "pods"}, false},
		"gap of another group":       {gap, deliver.Match{Group: new("")}, false},
		"gap, other ops":             {gap, deliver.Match{Ops: added}, true},
		"gap, no control events":     {gap, deliver.Match{Control: none}, false},
		"state":                      {state, deliver.Match{}, false},
		"state of the resource":      {state, deliver.Match{Resource: "pods"}, false},
		"state, asked for":           {state, deliver.Match{Namespaces: []string{"other"}, Control: []event.Op{event.State}}, true},
		"state of another":           {state, deliver.Match{Resource: "nodes", Control: []event.Op{event.State}}, false},
		"state, others asked for":    {state, deliver.Match{Control: []event.Op{event.Gap}}, false},
		"trimmed":                    {trimmed, deliver.Match{Resource: "pods", Namespaces: []string{"shop"}, Ops: added, Control: []event.Op{event.Gap}}, true},
		"trimmed, no control events": {trimmed, deliver.Match{Resource: "pods", Namespaces: []string{"shop"}, Ops: added, Control: none}, false},
		"snapshot":                   {event.Event{Op: event.Snapshot, ResourceVersion: 5}, deliver.Match{}, false},
		"snapshot, again":            {event.Event{Op: event.Snapshot, ResourceVersion: 5, PrevResourceVersion: 5, Run: 3, Replay: true}, deliver.Match{}, true},
		"begin":                      {event.Event{Op: event.Begin, ResourceVersion: 5, Run: 3}, deliver.Match{}, false},
		"begin, again":               {event.Event{Op: event.Begin, ResourceVersion: 5, Run: 3, Replay: true}, deliver.Match{}, true},
		"synced":                     {event.Event{Op: event.Synced, ResourceVersion: 5, Run: 3}, deliver.Match{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := route(t, false, test.match).Admits(&test.event); got != test.want {
				t.Errorf("admitted: %t", got)
			}
		})
	}
	if route(t, true).Admits(&state) {
		t.Error("a sink without a match gets states")
	}
}

// TestExplainAgrees: what is explained is what happens, for every operation, resource
// and namespace, and every reason names the key that stops the event.
func TestExplainAgrees(t *testing.T) {
	routes := map[string]*deliver.Route{
		"everything": route(t, true),
		"now":        route(t, false),
		"one match":  route(t, true, deliver.Match{Group: new("apps"), Resource: "deployments", Namespaces: []string{"shop"}, Ops: []event.Op{event.Added}, Control: []event.Op{}}),
		"two":        route(t, false, deliver.Match{Group: new("*.example.com")}, deliver.Match{Namespaces: []string{"team-*"}, Control: []event.Op{event.State}}),
	}
	admitted, refused := 0, 0
	for name, r := range routes {
		for _, op := range event.Ops() {
			for _, e := range []event.Event{
				of(op, "apps", "deployments", "shop"), of(op, "apps", "deployments", "team-a"), of(op, "", "pods", "shop"),
				of(op, "demo.example.com", "widgets", "shop"), of(op, "", "nodes", ""),
				{Op: op, Target: event.AllTargets},
				{Op: op, ID: "u:1:r7", Resource: "pods", Namespace: "shop"},
			} {
				got, reasons := r.Explain(&e)
				if got != r.Admits(&e) {
					t.Errorf("%s: Explain of %+v is %t, Admits is not", name, e, got)
				}
				if len(reasons) == 0 || slices.Contains(reasons, "") {
					t.Errorf("%s: no reason for %+v: %q", name, e, reasons)
				}
				if got {
					admitted++
				} else {
					refused++
				}
			}
		}
	}
	if admitted == 0 || refused == 0 {
		t.Errorf("%d admitted, %d refused: both must come up", admitted, refused)
	}
}

func TestExplainNamesTheKey(t *testing.T) {
	r := route(t, true,
		deliver.Match{Group: new("apps")}, deliver.Match{Resource: "nodes"}, deliver.Match{Namespaces: []string{"bank"}}, deliver.Match{Ops: []event.Op{event.Added}})
	e := of(event.Modified, "", "pods", "shop")
	admitted, reasons := r.Explain(&e)
	want := []string{
		`match[0].group does not let group "core" through`,
		`match[1].resource does not let resource "pods" through`,
		`match[2].namespaces does not let namespace "shop" through`,
		`match[3].ops does not let op modified through`,
	}
	if diff := cmp.Diff(want, reasons); diff != "" || admitted {
		t.Errorf("admitted: %t, reasons (-want +got):\n%s", admitted, diff)
	}
}
