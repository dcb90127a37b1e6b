package dynwatch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// TestChangesOfNow: what is told changes in a running target, which does not watch anew
// for it. Where the log forgets, states are kept from then on, and given up when nobody
// asks.
func TestChangesOfNow(t *testing.T) {
	for name, forgets := range logs() {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.put("a", "x", "1")
			r := startChanging(t, api, forgets, things())
			r.caughtUp()
			watches := r.manager.Targets()[0].Watches
			apply := func(wanted dynwatch.Resource) {
				t.Helper()
				if err := r.manager.Apply([]dynwatch.Resource{wanted}); err != nil {
					t.Fatal(err)
				}
				api.put("a", "x", "2")
				api.put("a", "x", "3")
				r.caughtUp()
			}
			apply(changing())
			alone := paired(t, r.log.all())
			var want []string
			if forgets {
				want = []string{"modified a/x uid-1 102<101"}
			}
			if !slices.Equal(alone, want) {
				t.Errorf("without what has changed: %q, want %q", alone, want)
			}
			if s := r.manager.Targets()[0]; s.Unpaired != uint64(len(want)) || (s.StateBytes > 0) != forgets {
				t.Errorf("status: %d without, %d bytes", s.Unpaired, s.StateBytes)
			}
			apply(things())
			if s := r.manager.Targets()[0]; s.StateBytes != 0 || s.Watches != watches {
				t.Errorf("then %d bytes are kept, and %d watches were opened, want 0 and %d", s.StateBytes, s.Watches, watches)
			}
			if last := r.log.all()[5]; last.Member(event.MemberPatch) != nil {
				t.Errorf("nobody asks, and the data is %s", last.Data)
			}
		})
	}
}

// TestChangesDoNotLeak: the state before was written when a value was not yet to be
// redacted. It comes out no more, and the patch still leads from one event to the next.
func TestChangesDoNotLeak(t *testing.T) {
	for name, forgets := range logs() {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.put("a", "x", shapedLabel)
			r := startChanging(t, api, forgets, changing())
			r.caughtUp()
			api.put("a", "x", shapedLabel)
			r.caughtUp()
			for _, redact := range []string{"metadata.labels.*", "/can.ry/"} {
				for _, now := range [][]string{nil, {redact}} {
					wanted := changing()
					wanted.Redact = now
					if err := r.manager.Apply([]dynwatch.Resource{wanted}); err != nil {
						t.Fatal(err)
					}
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
		})
	}
}

// TestStatesGoWithTheirObjects: nothing is kept of what is gone.
func TestStatesGoWithTheirObjects(t *testing.T) {
	api := newFakeAPI(t)
	r := startChanging(t, api, true, changing())
	for i := range 20 {
		api.put("a", fmt.Sprint("x", i), "1")
	}
	r.caughtUp()
	if s := r.manager.Targets()[0]; s.StateBytes == 0 {
		t.Error("nothing is kept")
	}
	for i := range 20 {
		api.del("a", fmt.Sprint("x", i))
	}
	api.put("a", "y", "1")
	api.del("a", "y")
	r.caughtUp()
	if s := r.manager.Targets()[0]; s.StateBytes != 0 {
		t.Errorf("%d bytes are kept of nothing", s.StateBytes)
	}
}
