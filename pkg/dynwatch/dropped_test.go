package dynwatch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
)

// What an edit has dropped stays out of the index however often informd starts: no
// audit finds it missing, and nothing is told of it.
func TestRestartsAfterAnEdit(t *testing.T) {
	edits := map[string]func(*dynwatch.Resource){
		"labels":               func(r *dynwatch.Resource) { r.LabelSelector = "on=yes" },
		"names of namespaces":  func(r *dynwatch.Resource) { r.ExcludeNamespaces = []string{"team-b"} },
		"labels of namespaces": func(r *dynwatch.Resource) { r.NamespaceSelector = "on=yes" },
		"all of it": func(r *dynwatch.Resource) {
			r.LabelSelector, r.NamespaceSelector, r.ExcludeNamespaces = "on=yes", "on=yes", []string{"team-c"}
		},
	}
	meanwhile := map[string]func(*fakeAPI){
		"nothing":                        func(*fakeAPI) {},
		"etcd forgets":                   func(api *fakeAPI) { api.put("", "other", ""); api.compact() },
		"etcd and the API server forget": func(api *fakeAPI) { api.put("", "other", ""); api.compact(); api.forget() },
	}
	for edited, edit := range edits {
		for what, happens := range meanwhile {
			for name, kill := range map[string]bool{"stopped": false, "killed": true} {
				t.Run(edited+", "+what+", "+name, func(t *testing.T) {
					restartAfterEdit(t, edit, happens, kill)
				})
			}
		}
	}
}

func restartAfterEdit(t *testing.T, edit func(*dynwatch.Resource), happens func(*fakeAPI), kill bool) {
	api := newFakeAPI(t)
	for ns, label := range map[string]string{"team-a": "yes", "team-b": "no"} {
		api.put("", ns, label)
		api.put(ns, "one", label)
	}
	wanted := things()
	wanted.Namespaces = []string{"team-*"}
	r := start(t, api, wanted)
	r.caughtUp()
	edit(&wanted)
	if err := r.manager.Apply([]dynwatch.Resource{wanted}); err != nil {
		t.Fatal(err)
	}
	r.caughtUp()
	n := len(r.log.all())
	for range 3 {
		r.stop(kill)
		happens(api)
		r.begin(wanted)
		r.caughtUp()
		r.eventually("an audit without divergences", func() bool {
			got := r.auditNow()
			if got.Divergences != 0 {
				t.Fatalf("audit: %+v", got)
			}
			return got.Err == nil && got.Objects == 1
		})
		if s := r.manager.Targets()[0]; s.Objects != 1 {
			t.Errorf("%d objects", s.Objects)
		}
	}
	api.put("team-b", "one", "no")
	api.del("team-b", "one")
	r.caughtUp()
	if diff := cmp.Diff([]string{}, thingLines(r.log.all()[n:])); diff != "" {
		t.Errorf("events after the edit (-want +got):\n%s", diff)
	}
}

// What left, came or was deleted while informd was down is told, whatever was dropped
// before.
func TestChangesDuringDowntimeAfterAnEdit(t *testing.T) {
	tests := map[string]struct {
		forget func(*fakeAPI)
		want   []string
	}{
		"etcd remembers": {func(*fakeAPI) {}, []string{"left a/leaves 106", "deleted a/ends 107"}},
		"etcd forgets":   {(*fakeAPI).compact, []string{"left a/leaves 106", "deleted a/ends 107"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			for name, label := range map[string]string{"dropped": "no", "dropped-2": "no", "leaves": "yes", "ends": "yes", "stays": "yes"} {
				api.put("a", name, label)
			}
			r := start(t, api, things())
			r.caughtUp()
			wanted := things()
			wanted.LabelSelector = "on=yes"
			if err := r.manager.Apply([]dynwatch.Resource{wanted}); err != nil {
				t.Fatal(err)
			}
			r.caughtUp()
			n := len(r.log.all())
			r.stop(false)
			api.put("a", "leaves", "no")
			api.del("a", "ends")
			api.del("a", "dropped-2")
			tt.forget(api)
			r.begin(wanted)
			r.caughtUp()
			r.eventually("the events", func() bool { return len(thingLines(r.log.all()[n:])) >= len(tt.want) })
			if diff := cmp.Diff(tt.want, thingLines(r.log.all()[n:])); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if got := r.auditNow(); got.Divergences != 0 || got.Err != nil || got.Objects != 1 {
				t.Errorf("audit: %+v", got)
			}
			n = len(r.log.all())
			rev := api.put("a", "dropped", "yes")
			r.caughtUp()
			r.eventually("it comes back", func() bool { return len(r.log.all()) == n+1 })
			if e := r.log.all()[n]; e.Op != "entered" || e.ResourceVersion != rev {
				t.Errorf("what comes back: %s", r.since(n))
			}
		})
	}
}
