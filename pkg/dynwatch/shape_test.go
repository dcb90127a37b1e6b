package dynwatch_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// shapedLabel is a label's value that the tests look for.
const shapedLabel = "canary"

// objectOf is the object of the last event of a name.
func (r *rig) objectOf(name string) string {
	for _, e := range slices.Backward(r.log.all()) {
		if e.Name == name {
			return string(e.Object())
		}
	}
	return ""
}

// TestReshape: what becomes of objects changes in a running target, which neither lists
// nor watches anew for it, and tells of nothing.
func TestReshape(t *testing.T) {
	for name, wanted := range map[string]dynwatch.Resource{"explicit": things(), "wildcard": {Group: "example.com", Resource: "thing?"}} {
		t.Run(name, func(t *testing.T) {
			api := newWildAPI(t, usual()...)
			api.put("a", "x", shapedLabel)
			r := startDefined(t, api, wanted)
			r.targets("example.com/things")
			r.caughtUp()
			if !strings.Contains(r.objectOf("x"), shapedLabel) {
				t.Fatalf("the object is %s", r.objectOf("x"))
			}
			api.mu.Lock()
			requests := len(api.requests)
			api.mu.Unlock()
			n := len(r.log.all())
			shaped := func(keep, omit, redact []string, want func(object string) bool) {
				t.Helper()
				next := wanted
				next.Keep, next.Omit, next.Redact = keep, omit, redact
				must(t, r.manager.Apply([]dynwatch.Resource{next}))
				api.put("a", "x", shapedLabel)
				n++
				r.eventually("one more event", func() bool { return len(r.log.all()) >= n })
				r.caughtUp()
				if got := r.log.all(); len(got) != n || got[n-1].Op != event.Modified || !want(r.objectOf("x")) {
					t.Errorf("keep %v, omit %v, redact %v: %q, object %s", keep, omit, redact, lines(got[n-1:]), r.objectOf("x"))
				}
			}
			has := func(parts ...string) func(string) bool {
				return func(object string) bool {
					return !slices.ContainsFunc(parts, func(part string) bool {
						part, not := strings.CutPrefix(part, "!")
						return strings.Contains(object, part) == not
					})
				}
			}
			shaped(nil, []string{"metadata.labels"}, nil, has(`"name":"x"`, "!"+shapedLabel, "!labels"))
			shaped(nil, nil, []string{"metadata.labels.*"}, has("hmac-sha256:", "!"+shapedLabel))
			shaped([]string{"metadata.uid"}, nil, nil, has(`"name":"x"`, "!labels", `"resourceVersion":`))
			shaped(nil, nil, []string{"/can.ry/"}, has("hmac-sha256:", "!"+shapedLabel))
			shaped(nil, nil, nil, has(shapedLabel))
			api.mu.Lock()
			since := api.requests[requests:]
			api.mu.Unlock()
			if slices.ContainsFunc(since, func(request string) bool { return strings.Contains(request, "/things") }) {
				t.Errorf("requests: %q", since)
			}
		})
	}
}

// TestRedactedFromTheLog: the last state that the log knows of a deleted object was
// written before the value was to be redacted. A hash that is in the log already is not hashed again.
func TestRedactedFromTheLog(t *testing.T) {
	api := newFakeAPI(t, "a/x "+shapedLabel, "a/y "+shapedLabel)
	r := live(t, api, things())
	redacted := things()
	redacted.Redact, redacted.Omit = []string{"metadata.labels.*"}, []string{"metadata.creationTimestamp"}
	deletionOf := func(name string) string {
		r.stop(false)
		n := len(r.log.all())
		api.del("a", name)
		api.forget()
		api.compact()
		r.begin(redacted)
		r.until(n, event.Deleted)
		return r.objectOf(name)
	}
	if object := deletionOf("x"); !strings.Contains(object, `:"hmac-sha256:`) || strings.Contains(object, shapedLabel) {
		t.Errorf("the deletion has %s", object)
	}
	api.put("a", "y", shapedLabel)
	r.caughtUp()
	before := r.objectOf("y")
	if after := deletionOf("y"); after != before || !strings.Contains(after, `:"hmac-sha256:`) {
		t.Errorf("before %s\nafter  %s", before, after)
	}
}

// TestRejectedOfRedactedHasNoBytes: what cannot be passed on may hold what is to be
// redacted.
func TestRejectedOfRedactedHasNoBytes(t *testing.T) {
	for name, wanted := range map[string]dynwatch.Resource{
		"path":    {Group: "example.com", Resource: "things", Redact: []string{"metadata.labels"}},
		"pattern": {Group: "example.com", Resource: "things", Redact: []string{"/can.ry/"}},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			r := live(t, api, wanted)
			api.do(func() {
				api.mangle = func(frame string) string { return strings.Replace(frame, `"uid":`, `"uix":`, 1) }
			})
			api.put("a", "x", shapedLabel)
			rejected := func() (all []dynwatch.Rejected) {
				r.log.set(func() { all = slices.Clone(r.log.rejected) })
				return all
			}
			r.eventually("a rejection", func() bool { return len(rejected()) > 0 })
			for _, one := range rejected() {
				if one.Raw != nil || one.Name != "x" || strings.Contains(one.Reason, shapedLabel) {
					t.Errorf("%+v", one)
				}
			}
		})
	}
}
