package dynwatch_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// TestChangesOfNow: what is told changes in a running target, which does not watch anew
// for it.
func TestChangesOfNow(t *testing.T) {
	api := newFakeAPI(t, "a/x 1")
	r := live(t, api, things())
	watches := r.manager.Targets()[0].Watches
	apply := func(wanted dynwatch.Resource) {
		t.Helper()
		must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
		api.put("a", "x", "2")
		api.put("a", "x", "3")
		r.caughtUp()
	}
	apply(changing())
	r.wantPaired()
	apply(things())
	if n := r.manager.Targets()[0].Watches; n != watches {
		t.Errorf("%d watches were opened, want %d", n, watches)
	}
	if last := r.log.all()[5]; last.Member(event.MemberPatch) != nil {
		t.Errorf("nobody asks, and the data is %s", last.Data)
	}
}

// TestChangesDoNotLeak: the state before was written when a value was not yet to be
// redacted. It comes out no more, and the patch still leads from one event to the next.
func TestChangesDoNotLeak(t *testing.T) {
	api := newFakeAPI(t)
	api.put("a", "x", shapedLabel)
	r := live(t, api, changing())
	api.put("a", "x", shapedLabel)
	r.caughtUp()
	for _, redact := range []string{"metadata.labels.*", "/can.ry/"} {
		for _, now := range [][]string{nil, {redact}} {
			wanted := changing()
			wanted.Redact = now
			must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
			n := len(r.log.all())
			api.put("a", "x", shapedLabel)
			r.caughtUp()
			events := r.log.all()
			last, e := &events[n-1], &events[n]
			if e.Op != event.Modified || len(events) != n+1 {
				t.Fatalf("%q", lines(events))
			}
			patch := e.Member(event.MemberPatch)
			if diff := cmp.Diff(decodedJSON(t, e.Object()), patched(t, decodedJSON(t, last.Object()), patch)); diff != "" {
				t.Errorf("the patch %s does not lead to (-want +got)\n%s", patch, diff)
			}
			if now != nil && (strings.Contains(string(e.Data), shapedLabel) || !strings.Contains(string(e.Member(event.MemberOld)), "hmac-sha256:")) {
				t.Errorf("redacted by %s: %s", redact, e.Data)
			}
		}
	}
}
