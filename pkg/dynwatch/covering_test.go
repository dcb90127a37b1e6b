package dynwatch_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

func TestCovering(t *testing.T) {
	covers, err := dynwatch.Covering([]dynwatch.Resource{
		{Resource: "pods"},
		{Group: "apps", Resource: "deployments", Namespaces: []string{"shop", "bar"}},
		{Resource: "secrets", Namespaces: []string{"team-*"}, ExcludeNamespaces: []string{"team-x"}, NamespaceSelector: "tier=prod"},
		{Group: "*.example.com", Resource: "*", ExcludeResources: []string{"noises"}},
		{Group: "b.example.com", Resource: "widgets", Namespaces: []string{"shop"}},
	})
	must(t, err)
	object := func(group, resource, namespace string) event.Event {
		return event.Event{Op: event.Modified, Group: group, Resource: resource, Namespace: namespace, Name: "a"}
	}
	record := func(group, resource, target string) event.Event {
		return event.Event{Op: event.Synced, Group: group, Resource: resource, Target: target}
	}
	for name, c := range map[string]struct {
		event event.Event
		want  bool
	}{
		"in any namespace":                     {object("", "pods", "shop"), true},
		"another group":                        {object("metrics.k8s.io", "pods", "shop"), false},
		"another resource":                     {object("", "services", "shop"), false},
		"in a named namespace":                 {object("apps", "deployments", "bar"), true},
		"in another namespace":                 {object("apps", "deployments", "foo"), false},
		"the labels are not asked for":         {object("", "secrets", "team-a"), true},
		"excluded namespace":                   {object("", "secrets", "team-x"), false},
		"no match of the namespace":            {object("", "secrets", "shop"), false},
		"by wildcard":                          {object("a.example.com", "widgets", ""), true},
		"excluded resource":                    {object("a.example.com", "noises", "shop"), false},
		"an entry of its own comes before":     {object("b.example.com", "widgets", "foo"), false},
		"an entry of its own, its namespace":   {object("b.example.com", "widgets", "shop"), true},
		"record of a target":                   {record("", "pods", "core/pods"), true},
		"record of a target that was narrower": {record("", "pods", "core/pods@shop"), false},
		"record of a namespace":                {record("apps", "deployments", "apps/deployments@shop"), true},
		"record of another namespace":          {record("apps", "deployments", "apps/deployments@foo"), false},
		"record of what was wider":             {record("apps", "deployments", "apps/deployments"), false},
		"record by wildcard":                   {record("a.example.com", "widgets", "a.example.com/widgets"), true},
	} {
		if got := covers(&c.event); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if _, err := dynwatch.Covering([]dynwatch.Resource{{Resource: "pods"}, {Resource: "pods"}}); err == nil {
		t.Error("a resource that is listed twice is no error")
	}
}

// TestBrackets are those of a snapshot on request, and emit nothing.
func TestBrackets(t *testing.T) {
	r := live(t, fourObjects(t), things())
	before := len(r.log.all())
	result := r.resnapshot()
	brackets, err := r.manager.Brackets("example.com/things")
	if err != nil || len(brackets.Begin) != 1 || len(brackets.End) != 1 || brackets.Run <= result.Run {
		t.Fatalf("brackets %+v after run %d, %v", brackets, result.Run, err)
	}
	var records []event.Event
	for _, e := range r.log.all()[before:] {
		if e.Op.Bounds() {
			records = append(records, e)
		}
	}
	for i, got := range []event.Event{brackets.Begin[0], brackets.End[0]} {
		want := records[i]
		want.SetRun(brackets.Run)
		want.Time = got.Time
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("record %d (-want +got):\n%s", i, diff)
		}
	}
	api := newFakeAPI(t)
	api.do(func() { api.served = false })
	waiting := start(t, api, things())
	waiting.state(dynwatch.Waiting)
	if brackets, err := waiting.manager.Brackets("things"); err != nil || len(brackets.Begin) != 1 {
		t.Errorf("of a resource that is not served: %+v, %v", brackets, err)
	}
	if _, err := r.manager.Brackets("nothings"); !errors.Is(err, dynwatch.ErrUnknownResource) {
		t.Errorf("of a resource that is not watched: %v", err)
	}
}

// TestBracketsBeforeTheFirstList: before a target has listed, the journal does not know its objects, and a snapshot
// of these would say that there are none.
func TestBracketsBeforeTheFirstList(t *testing.T) {
	api := fourObjects(t)
	api.keepRefusing(anything, refusal(500, "InternalError", "etcdserver: request timed out"))
	r := start(t, api, things())
	for _, state := range []dynwatch.State{r.manager.Targets()[0].State, r.state(dynwatch.Degraded).State} {
		if _, err := r.manager.Brackets("things"); !errors.Is(err, dynwatch.ErrNotListed) {
			t.Errorf("%s: %v", state, err)
		}
	}
	api.admit()
	r.caughtUp()
	if _, err := r.manager.Brackets("things"); err != nil {
		t.Error(err)
	}
}
