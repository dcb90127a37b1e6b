package dynwatch_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// asking is things with the members that say who and whence.
func asking() dynwatch.Resource {
	r := things()
	r.FieldManager, r.OwnerChain = true, true
	return r
}

const (
	tester = `{"manager":"tester","operation":"Update","time":"2026-11-20T10:00:00Z"}`
	app    = `{"kind":"App","apiVersion":"own.example.com/v1","name":"app","uid":"u-app"}`
	set    = `{"kind":"Set","apiVersion":"own.example.com/v1","name":"set","uid":"u-set"}`
	setEnd = `{"kind":"Set","apiVersion":"own.example.com/v1","name":"set","uid":"u-set","complete":false}`
)

// lastOf waits until a thing has n events and returns the last.
func (r *rig) lastOf(name string, n int) event.Event {
	r.t.Helper()
	var of []event.Event
	r.eventually("the events of "+name, func() bool {
		of = slices.DeleteFunc(r.log.all(), func(e event.Event) bool { return e.Name != name })
		return len(of) >= n
	})
	return of[n-1]
}

// chainOf checks the members of a thing's nth event.
func (r *rig) chainOf(name string, n int, op event.Op, actor, owner string) {
	r.t.Helper()
	e := r.lastOf(name, n)
	if e.Op != op || string(e.Member("fieldManager")) != actor || string(e.Member("ownerChain")) != owner {
		r.t.Errorf("%s is %s of %s\n  actor %s, want %s\n  owner %s\n   want %s", name, e.Op, e.Data, e.Member("fieldManager"), actor, e.Member("ownerChain"), owner)
	}
	if !bytes.Contains(e.Object(), []byte(`"name":"`+name+`"`)) {
		r.t.Errorf("%s has the object %s", e.Op, e.Object())
	}
}

func TestOwnerChain(t *testing.T) {
	for name, mode := range map[string]dynwatch.Mode{"full": dynwatch.Full, "metadata": dynwatch.Metadata} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			owners := api.own()
			owners.putSetOfApp()
			api.put("a", "before", "set/u-set")
			wanted := asking()
			wanted.Mode = mode
			wanted.Keep = []string{"metadata.labels"} // what is read is not what is kept
			r := start(t, api, wanted)
			r.chainOf("before", 1, event.Snapshot, tester, "["+set+","+app+"]")
			r.caughtUp()
			api.put("a", "one", "set/u-set")
			api.put("a", "one", "set/u-set")
			api.put("a", "free", "")
			r.chainOf("one", 1, event.Added, tester, "["+set+","+app+"]")
			r.chainOf("one", 2, event.Modified, tester, "["+set+","+app+"]")
			r.chainOf("free", 1, event.Added, "", "")
			// What controls an object goes before it, as garbage collection has it.
			owners.del("apps", "app")
			owners.del("sets", "set")
			api.del("a", "one")
			r.chainOf("one", 3, event.Deleted, "", "["+set+","+app+"]")
			if n := owners.looks(); n != 2 {
				t.Errorf("%d look-ups of two owners", n)
			}
		})
	}
}

// An owner that came under the name of the one before is not taken for it. Whoever names a controller of another
// namespace learns nothing about it. A cycle ends.
func TestOwnersThatAreNotFollowed(t *testing.T) {
	api := newFakeAPI(t)
	owners := api.own() // in namespace a
	owners.putSetOfApp()
	owners.put("sets", "self", "u-self", "Set/self/u-self")
	owners.put("apps", "top", "u-top", "Set/below/u-below")
	owners.put("sets", "below", "u-below", "App/top/u-top")
	r := live(t, api, asking())
	incomplete := func(owner, from, to string) string {
		replacer := strings.NewReplacer(`"`+from+`"`, `"`+to+`"`, "u-"+from, "u-"+to)
		return strings.Replace(replacer.Replace(owner), "}", `,"complete":false}`, 1)
	}
	below := strings.NewReplacer(`"set"`, `"below"`, "u-set", "u-below").Replace(set)
	for name, c := range map[string]struct{ namespace, label, owner string }{
		"followed":             {"a", "set/u-set", "[" + set + "," + app + "]"},
		"another-uid":          {"a", "set/u-other", "[" + strings.Replace(setEnd, "u-set", "u-other", 1) + "]"},
		"in-another-namespace": {"b", "set/u-set", "[" + setEnd + "]"},
		"cycle":                {"a", "below/u-below", "[" + below + "," + incomplete(app, "app", "top") + "]"},
		"cycle-of-one":         {"a", "self/u-self", "[" + incomplete(set, "set", "self") + "]"},
	} {
		api.put(c.namespace, name, c.label)
		r.chainOf(name, 1, event.Added, tester, c.owner)
	}
}

// What objects say of their controllers makes no path of a request that is none of a group.
func TestOwnerOfAStrangeGroup(t *testing.T) {
	for _, version := range []string{"../v1", "..", "a/b/c", "%2e%2e/v1", "UPPER/v1"} {
		api := newFakeAPI(t)
		api.own()
		api.do(func() {
			mangle := api.mangle
			api.mangle = func(s string) string {
				return strings.Replace(mangle(s), `"apiVersion":"own.example.com/v1"`, `"apiVersion":"`+version+`"`, 1)
			}
		})
		r := live(t, api, asking())
		api.mu.Lock()
		before := len(api.requests)
		api.mu.Unlock()
		api.put("a", "one", "set/u-set")
		r.chainOf("one", 1, event.Added, tester, "["+strings.Replace(setEnd, "own.example.com/v1", version, 1)+"]")
		api.mu.Lock()
		for _, request := range api.requests[before:] {
			if !strings.HasPrefix(request, "/api") || strings.Contains(request, "..") || strings.Contains(request, "UPPER") {
				t.Errorf("%s makes the request %s", version, request)
			}
		}
		api.mu.Unlock()
	}
}

// A chain that is longer than any that makes sense ends early.
func TestOwnerLongChain(t *testing.T) {
	api := newFakeAPI(t)
	owners := api.own()
	owners.putChain(12)
	r := live(t, api, asking())
	api.put("a", "one", "sa/usa")
	e := r.lastOf("one", 1)
	owner := string(e.Member("ownerChain"))
	if n := strings.Count(owner, `"kind"`); n != 10 || !strings.HasSuffix(owner, `"uid":"usj","complete":false}]`) {
		t.Errorf("%d links: %s", n, owner)
	}
}

// An event waits for all of its chain together, however long that is.
func TestOwnerLongChainOfSlowLookUps(t *testing.T) {
	api := newFakeAPI(t)
	owners := api.own()
	owners.do(func() { owners.slow = 400 * time.Millisecond })
	owners.putChain(8)
	r := newRig(t, api)
	r.ownerWait = time.Second // the chain takes three
	r.goLive(asking())
	api.put("a", "one", "sa/usa")
	e := r.lastOf("one", 1)
	chain := string(e.Member("ownerChain"))
	if !strings.HasSuffix(chain, `"complete":false}]`) {
		t.Errorf("chain %s, want one that is not complete", chain)
	}
}

// Owners that may not be read, or a kind that there is not, shorten the chain and hold up
// nothing; what is told of them is told once.
func TestOwnersThatCannotBeRead(t *testing.T) {
	api := newFakeAPI(t)
	owners := api.own()
	owners.put("sets", "set", "u-set", "")
	owners.deny(true)
	r, log := newListening(t, api)
	const many = 500
	for i := range many {
		api.put("a", "thing-"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+strings.Repeat("y", i/26), "set/u-set")
	}
	begin := time.Now()
	r.goLive(asking())
	if took := time.Since(begin); took > deadline/2 {
		t.Errorf("%v for the first list", took)
	}
	api.put("a", "one", "set/u-set")
	r.chainOf("one", 1, event.Added, tester, "["+setEnd+"]")
	if n := owners.looks(); n > many/10 {
		t.Errorf("%d look-ups of what may not be read", n)
	}
	if n := log.count(`level=WARN msg="owner kind unreadable`); n != 1 {
		t.Errorf("%d warnings", n)
	}
	owners.deny(false)
	n := 1
	r.eventually("the whole chain", func() bool {
		api.put("a", "one", "set/u-set")
		n++
		e := r.lastOf("one", n)
		return string(e.Member("ownerChain")) == "["+set+"]"
	})
}

// An API server that does not answer about owners delays events once, and not each.
func TestOwnersThatHang(t *testing.T) {
	api := newFakeAPI(t)
	owners := api.own()
	owners.do(func() { owners.hung = true })
	r := newRig(t, api)
	r.ownerWait = time.Second
	r.goLive(asking())
	began := time.Now()
	const many = 50
	for i := range many {
		api.put("a", "new", "set/u-"+string(rune('0'+i%10))+string(rune('a'+i/10)))
	}
	r.lastOf("new", many)
	if took := time.Since(began); took > deadline/2 {
		t.Errorf("%v for %d events", took, many)
	}
	if n := owners.looks(); n > many/2 {
		t.Errorf("%d look-ups for %d events", n, many)
	}
}

// An end that only a comparison finds has the chain that the log has.
func TestOwnerOfWhatEndedMeanwhile(t *testing.T) {
	api := newFakeAPI(t)
	owners := api.own()
	owners.putSetOfApp()
	r := live(t, api, asking())
	api.put("a", "one", "set/u-set")
	r.chainOf("one", 1, event.Added, tester, "["+set+","+app+"]")
	r.stop(false)
	owners.del("apps", "app")
	owners.del("sets", "set")
	api.del("a", "one")
	api.compact()
	api.forget()
	r.begin(asking())
	r.chainOf("one", 2, event.Deleted, "", "["+set+","+app+"]")
}

// What redact is about does not show beside the object either.
func TestMembersThatAreRedacted(t *testing.T) {
	cases := map[string]struct{ redact, actor, owner string }{
		"a path to owners":    {"metadata.ownerReferences[].name", tester, ""},
		"a star":              {"metadata.*.manager", "", ""},
		"a pattern of owners": {"/u-s.t/", tester, ""},
		"a pattern of actors": {"/teste[r]/", "", "[" + set + "]"},
		"something else":      {"metadata.annotations", tester, "[" + set + "]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.own().put("sets", "set", "u-set", "")
			wanted := asking()
			wanted.Redact = []string{c.redact}
			r := live(t, api, wanted)
			api.put("a", "one", "set/u-set")
			r.chainOf("one", 1, event.Added, c.actor, c.owner)
		})
	}
}

// Neither is part of the object to a change filter.
func TestMembersAreNoChange(t *testing.T) {
	api := newFakeAPI(t)
	owners := api.own()
	wanted := asking()
	wanted.EmitWhen.Changed = []string{"metadata.labels", "metadata.ownerReferences"}
	r := live(t, api, wanted)
	api.put("a", "one", "set/u-set")
	r.chainOf("one", 1, event.Added, tester, "["+setEnd+"]")
	owners.put("sets", "set", "u-set", "")
	api.put("a", "one", "set/u-set")
	r.caughtUp()
	r.eventually("held back", func() bool { return r.manager.Targets()[0].Unchanged == 1 })
	api.put("a", "one", "set/u-set2")
	r.lastOf("one", 2)
	same(t, []string{"added a/one uid-1 101", "modified a/one uid-1 103<101"}, lines(r.log.all())[1:])
}
