package dynwatch_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

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
