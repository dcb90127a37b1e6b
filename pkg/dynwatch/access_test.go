package dynwatch_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// Of what is logged about permissions: the line for people, and the one for who
// looks closer.
const (
	missingLine  = "level=ERROR msg=\"permissions missing; apply the output of `informd rbac`\""
	unknownDebug = `level=DEBUG msg="permissions not checked"`
)

func TestMissingVerbsAreNamedOnceAndGrantedVerbsHeal(t *testing.T) {
	cases := map[string]struct {
		denied  []string
		missing []string
		line    string
	}{
		"neither": {[]string{"list", "watch"}, []string{"list", "watch"}, `target=example.com/things verbs="[list watch]" namespace=*`},
		"list":    {[]string{"list"}, []string{"list"}, "target=example.com/things verbs=[list] namespace=*"},
		"watch":   {[]string{"watch"}, []string{"watch"}, "target=example.com/things verbs=[watch] namespace=*"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x")
			api.deny(c.denied...)
			r, out := listen(t, api, things())
			r.eventually("missing verbs", func() bool { return slices.Equal(r.manager.Targets()[0].MissingVerbs, c.missing) })
			if s, want := r.state(dynwatch.Forbidden), fmt.Sprintf("%[1]s: things.example.com is forbidden: you cannot %[1]s it", c.denied[0]); s.Reason != want {
				t.Errorf("the reason is %q, want %q", s.Reason, want)
			}
			r.eventually("a line", func() bool { return len(out.with(missingLine)) > 0 })
			if got := out.with(missingLine)[0]; !strings.Contains(got, c.line) {
				t.Errorf("logged %s, want %s", got, c.line)
			}
			api.do(func() { api.denied = nil })
			r.caughtUp()
			if s := r.manager.Targets()[0]; len(s.MissingVerbs) > 0 {
				t.Errorf("live, and %v are missing", s.MissingVerbs)
			}
			if n := len(out.with(missingLine)); n != 1 {
				t.Errorf("%d lines", n)
			}
		})
	}
}

// One namespace that may not be read is named, and is the only one that waits.
func TestMissingVerbsOfOneNamespace(t *testing.T) {
	api := newFakeAPI(t, "a/x", "c/y")
	api.denied = map[string]bool{"list c": true, "watch c": true}
	wanted := inNamespaces("a", "c")
	r, out := listen(t, api, wanted)
	r.eventually("one live, one forbidden with what is missing", func() bool {
		all := r.manager.Targets()
		return all[0].State == dynwatch.Live && len(all[0].MissingVerbs) == 0 &&
			all[1].State == dynwatch.Forbidden && len(all[1].MissingVerbs) == 2
	})
	r.eventually("a line", func() bool { return len(out.with(missingLine)) > 0 })
	if got := out.with(missingLine); len(got) != 1 || !strings.Contains(got[0], `target=example.com/things@c verbs="[list watch]" namespace=c`) {
		t.Errorf("logged %q", got)
	}
}

// A review that says nothing usable is no news, and holds up a target that is granted its permissions only until it ends.
func TestReviewThatFails(t *testing.T) {
	for name, review := range map[string]http.HandlerFunc{
		"refused":  func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, 403, "Forbidden", "not for you") },
		"no such":  func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, 404, "NotFound", "what?") },
		"broken":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"status":{"allowed":"perhaps`) },
		"cut":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"too many": func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, 429, "TooManyRequests", "later") },
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.denied = map[string]bool{"watch": true}
			api.review = review
			r, out := listen(t, api, things())
			r.eventually("a debug line", func() bool { return len(out.with(unknownDebug)) > 0 })
			r.state(dynwatch.Forbidden)
			if got := out.with(missingLine); len(got) > 0 {
				t.Errorf("logged %q", got)
			}
			if missing := r.manager.Targets()[0].MissingVerbs; len(missing) > 0 {
				t.Errorf("missing: %v", missing)
			}
			api.do(func() { api.denied = nil })
			r.caughtUp()
		})
	}
}

// TestReviewThatHangs: it does not hold up the end of a target, nor other targets.
func TestReviewThatHangs(t *testing.T) {
	api := newFakeAPI(t)
	asked := make(chan struct{}, 1)
	api.review = func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the context ends with the client only then
		select {
		case asked <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}
	api.denied = map[string]bool{"list c": true}
	wanted := inNamespaces("a", "c")
	r, out := listen(t, api, wanted)
	<-asked
	r.eventually("the other one is live", func() bool { return r.manager.Targets()[0].State == dynwatch.Live })
	r.manager.Close()
	if got := out.with(missingLine); len(got) > 0 {
		t.Errorf("logged %q", got)
	}
}

// TestRefusalsAskOnce: each retry of a target is refused, and only the first one asks what is missing.
func TestRefusalsAskOnce(t *testing.T) {
	api := newFakeAPI(t)
	api.denied = map[string]bool{"list": true}
	r := start(t, api, things())
	r.eventually("five refusals", func() bool { return r.manager.Targets()[0].Failures >= 5 })
	if n := api.requestsWith("selfsubjectaccessreviews"); n != 2 {
		t.Errorf("%d questions, want one for each verb", n)
	}
}

func TestNothingMissingIsNoQuestion(t *testing.T) {
	api := newFakeAPI(t)
	r, out := listen(t, api, things())
	r.caughtUp()
	r.manager.Close()
	if n := api.requestsWith("selfsubjectaccessreviews"); n > 0 {
		t.Errorf("%d questions", n)
	}
	if got := slices.Concat(out.with("permissions"), out.with("level=WARN"), out.with("level=ERROR")); len(got) > 0 {
		t.Errorf("logged %q", got)
	}
}
