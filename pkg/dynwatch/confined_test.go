package dynwatch_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// confine has the fake refuse every request for things that an authorizer does not permit,
// access reviews included. It counts those that were refused.
func (f *fakeAPI) confine(permits func(fieldSelector, labelSelector string) bool) (refused *atomic.Int64) {
	f.do(func() {
		f.review = func(w http.ResponseWriter, r *http.Request) {
			var review struct {
				Spec struct {
					ResourceAttributes struct {
						Resource, Name               string
						FieldSelector, LabelSelector struct{ RawSelector string }
					}
				}
			}
			err := json.NewDecoder(r.Body).Decode(&review)
			a := review.Spec.ResourceAttributes
			writeReview(w, err == nil && permits(a.FieldSelector.RawSelector, a.LabelSelector.RawSelector) &&
				a.Name == selectedName(a.FieldSelector.RawSelector))
		}
	})
	return f.refuseTimes(forEver, func(r *http.Request) bool {
		q := r.URL.Query()
		return ofThings(r) && !permits(q.Get("fieldSelector"), q.Get("labelSelector"))
	}, refusal(403, "Forbidden", "things.example.com is forbidden: you cannot read it"))
}

// selectedName is the name that a request is for, as the API server finds it.
func selectedName(fieldSelector string) string {
	for term := range strings.SplitSeq(fieldSelector, ",") {
		if name, ok := strings.CutPrefix(term, "metadata.name="); ok {
			return name
		}
	}
	return ""
}

// onlyName permits what a rule with resourceNames does.
func onlyName(name string) func(string, string) bool {
	return func(fieldSelector, _ string) bool { return selectedName(fieldSelector) == name }
}

// onlyLabel permits requests that select the label.
func onlyLabel(_, labelSelector string) bool { return labelSelector == "on=yes" }

func selectingOn() dynwatch.Resource {
	wanted := things()
	wanted.LabelSelector = "on=yes"
	return wanted
}

func named(name string) dynwatch.Resource {
	wanted := things()
	wanted.FieldSelector = "metadata.name=" + name
	return wanted
}

// checkUndisturbed checks that nothing is missing and that an audit comes to its end.
func (r *rig) checkUndisturbed(objects int) {
	r.t.Helper()
	r.caughtUp()
	if missing := r.manager.Targets()[0].MissingVerbs; len(missing) > 0 {
		r.t.Errorf("missing: %v", missing)
	}
	r.wantAuditOf(objects)
}

// With credentials for one name, no request is for another one, in one namespace and in all.
func TestCredentialsForOneName(t *testing.T) {
	for name, namespaces := range map[string][]string{"in all namespaces": nil, "in one": {"a"}} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x 1", "a/y 1")
			refused := api.confine(onlyName("x"))
			wanted := named("x")
			wanted.Namespaces = namespaces
			r, n := liveFrom(t, api, wanted)
			api.put("a", "x", "2")
			api.put("a", "y", "2")
			api.del("a", "x")
			api.put("a", "x", "3")
			r.checkUndisturbed(1)
			r.wantEvents(n, "modified a/x uid-1 103<101", "deleted a/x uid-1 105<103", "added a/x uid-3 106")
			n = r.lose(func(api *fakeAPI) {
				api.del("a", "x")
				api.put("a", "x", "4")
				api.put("a", "x", "5")
				api.del("a", "x")
			})
			r.checkUndisturbed(0)
			same(t, []string{"deleted a/x uid-3 107<106 replay"}, withoutGap(r.since(n)))
			if plan := planned(t, api, wanted); plan.State != dynwatch.Ready || len(plan.MissingVerbs) > 0 {
				t.Errorf("plan: %+v", plan)
			}
			if n := refused.Load(); n > 0 {
				t.Errorf("%d requests were refused", n)
			}
		})
	}
}

// The walk through the history of a name needs no other name either.
func TestWalkWithCredentialsForOneName(t *testing.T) {
	api := newFakeAPI(t, "a/x 1")
	refused := api.confine(onlyName("x"))
	r := start(t, api, named("x"))
	n := r.lose(func(api *fakeAPI) {
		api.put("a", "x", "2")
		api.del("a", "x")
	})
	r.eventually("the deletion", func() bool { return len(r.log.all()) >= n+3 })
	r.checkUndisturbed(0)
	same(t, []string{"modified a/x uid-1 102<101 replay", "deleted a/x uid-1 103<102 replay"}, withoutGap(r.since(n)))
	if n := refused.Load(); n > 0 {
		t.Errorf("%d requests were refused", n)
	}
}

func withoutGap(lines []string) (all []string) {
	for _, line := range lines {
		if !strings.HasPrefix(line, "gap ") {
			all = append(all, line)
		}
	}
	return all
}

// With credentials for a label only, what matches no more has left and what matches has entered:
// informd cannot know more. Refused requests are rare.
func TestCredentialsForALabel(t *testing.T) {
	for name, tt := range map[string]struct {
		lost    bool
		refused int64
	}{
		"live":              {false, 2},
		"by a walk":         {true, 6}, // walks ask about several names at once
		"compacted history": {true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/leaves yes", "a/ends yes")
			refused := api.confine(onlyLabel)
			r := live(t, api, selectingOn())
			write := func(api *fakeAPI) {
				api.put("a", "leaves", "no")
				api.del("a", "ends")
				api.put("a", "new", "yes")
				if name == "compacted history" {
					api.compact()
				}
			}
			n := len(r.log.all())
			if tt.lost {
				n = r.lose(write)
			} else {
				write(api)
			}
			r.eventually("three events", func() bool { return len(withoutGap(r.since(n))) >= 3 })
			r.checkUndisturbed(1)
			ops := make(map[string]string)
			for _, line := range withoutGap(r.since(n)) {
				words := strings.Fields(line)
				ops[words[1]] += words[0]
			}
			want := map[string]string{"a/leaves": "left", "a/ends": "left", "a/new": "entered"}
			if name == "compacted history" {
				want["a/new"] = "added" // as with every permission
			}
			same(t, want, ops)
			if n := refused.Load(); n > tt.refused {
				t.Errorf("%d requests were refused", n)
			}
		})
	}
}

// A refusal of everything, as of an API server that has just started, or of credentials that
// were withdrawn, says nothing about an object.
func TestRefusalOfEverythingDecidesNothing(t *testing.T) {
	for name, most := range map[string]int64{
		"for a moment":    1,
		"for two moments": 2,
		"for some time":   20,
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x yes")
			r, n := liveFrom(t, api, selectingOn())
			api.refuseTimes(most, func(r *http.Request) bool {
				return selectedName(r.URL.Query().Get("fieldSelector")) == "x" && verbOf(r) == "list"
			}, refusal(403, "Forbidden", "not now"))
			api.del("a", "x")
			r.caughtUp()
			// After some time a list has the answer, whose events are replayed.
			got := strings.ReplaceAll(strings.Join(withoutGap(r.since(n)), "\n"), " replay", "")
			if want := "deleted a/x uid-1 102<101"; got != want {
				t.Errorf("events %q, want %q", got, want)
			}
		})
	}
}

// After an edit of the name, the object that was selected before is dropped, be it readable or
// not. It was not deleted.
func TestNameIsEdited(t *testing.T) {
	api := newFakeAPI(t, "a/x 1", "a/y 1")
	api.confine(onlyName("x"))
	r, n := liveFrom(t, api, named("x"))
	r.stop(false)
	api.confine(onlyName("y"))
	r.goLive(named("y"))
	same(t, []string{"snapshot a/y uid-2 102 replay"}, withoutGap(r.since(n)))
	n = len(r.log.all())
	api.del("a", "y")
	r.checkUndisturbed(0)
	r.wantEvents(n, "deleted a/y uid-2 103<102")
}

// TestNamespaceDeletedWithItsPermission: all requests for the objects are forbidden. What
// becomes of the objects depends on the Namespace.
func TestNamespaceDeletedWithItsPermission(t *testing.T) {
	cases := map[string]struct {
		// deny: Namespaces may not be listed.
		deny bool
		// keep: the namespace exists.
		keep bool
		// answer replaces that of the API server about the Namespace.
		answer answer
		want   []string
		// reason is part of the target's reason.
		reason string
	}{
		"seen by a list": {
			want:   []string{"deleted a/x uid-2 104<103 replay", "gap (103,104] namespace-deleted state"},
			reason: `namespace "a" does not exist`,
		},
		"nothing may be read":  {deny: true, reason: "`list` on namespaces and resourceNames: [a]"},
		"the namespace exists": {keep: true, reason: "you cannot"},
		"404 as HTML":          {answer: textAnswer(404, "text/html", "<html>404</html>"), reason: "you cannot"},
		"404 about something else": {answer: func(w http.ResponseWriter, _ *http.Request) {
			writeStatus(w, 404, "NotFound", "the server could not find the requested resource")
		}, reason: "you cannot"},
		"an empty answer": {answer: textAnswer(200, "application/json", "{}"), reason: "you cannot"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.define()
			api.put("", "a", "")
			api.put("a", "x", "")
			api.put("a", "x", "")
			r, n := liveFrom(t, api, inNamespaces("a"))
			api.do(func() {
				api.denied = map[string]bool{"list a": true, "watch a": true, "list namespaces": c.deny}
				api.mute = true
				api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
					if c.answer == nil || r.URL.Path != namespacesPath || !strings.Contains(r.URL.RawQuery, "metadata.name%3Da") {
						return false
					}
					c.answer(w, r)
					return true
				}
			})
			if !c.keep {
				api.do(func() { // the namespace and its objects, which no watch brings
					api.rev++
					for _, one := range api.stateAt(api.rev - 1) {
						one.rev, one.deleted = api.rev, true
						api.history = append(api.history, one)
					}
				})
			}
			api.cut()
			r.eventually("the reason says it", func() bool { return strings.Contains(r.manager.Targets()[0].Reason, c.reason) })
			if len(c.want) == 0 {
				r.quietFor(outage/2, n)
				if s := r.state(dynwatch.Forbidden); s.Objects != 1 {
					t.Errorf("%d objects", s.Objects)
				}
			}
			r.wantLines(c.want, r.since(n)[:len(c.want)])
			// The namespace and the permission return.
			n = len(r.log.all())
			api.do(func() { api.denied, api.mute, api.refuse = nil, false, nil })
			api.put("", "a", "")
			api.put("a", "x", "")
			r.caughtUp()
			if r.manager.Gone("example.com/things@a") {
				t.Error("the target counts as gone, and is live")
			}
			r.consistent()
			if last := r.since(n); len(c.want) > 0 && (len(last) != 2 || !strings.HasPrefix(last[0], "added a/x uid-4 ")) {
				t.Errorf("afterwards: %q", last)
			}
		})
	}
}
