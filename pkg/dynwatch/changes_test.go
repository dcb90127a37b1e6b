package dynwatch_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// changing are things of whose changes all is told.
func changing() dynwatch.Resource {
	r := things()
	r.Changes = dynwatch.Changes{Changed: true, Patch: true, OldObject: true}
	return r
}

// paired checks every event of objects against the one before it of the same uid, and
// returns which modified events do not say what has changed.
func paired(t *testing.T, events []event.Event) (alone []string) {
	t.Helper()
	before := make(map[string]*event.Event)
	for i := range events {
		e := &events[i]
		if e.Op.Control() {
			continue
		}
		last := before[e.UID]
		before[e.UID] = e
		patch, old := e.Member(event.MemberPatch), e.Member(event.MemberOld)
		switch {
		case e.Op != event.Modified && (patch != nil || old != nil || e.Member(event.MemberChanged) != nil):
			t.Errorf("%s says what has changed: %s", lines(events[i : i+1])[0], e.Data)
		case e.Op != event.Modified:
		case patch == nil && old == nil:
			alone = append(alone, lines(events[i : i+1])[0])
		case last == nil || last.ResourceVersion != e.PrevResourceVersion:
			t.Errorf("%s says what has changed since an event that is not there", e.ID)
		default:
			if diff := cmp.Diff(decodedJSON(t, e.Object()), patched(t, decodedJSON(t, last.Object()), patch)); diff != "" {
				t.Errorf("%s: the patch %s of\n%s does not lead to (-want +got)\n%s", e.ID, patch, last.Object(), diff)
			}
			if string(old) != string(last.Object()) {
				t.Errorf("%s: the object before is %s, want %s", e.ID, old, last.Object())
			}
			if changed, ok := decodedJSON(t, e.Member(event.MemberChanged)).([]any); !ok || !slices.Contains(changed, any("spec.rev")) {
				t.Errorf("%s: changed are %v", e.ID, changed)
			}
		}
	}
	return alone
}

// wantPaired expects that all modified events say what has changed.
func (r *rig) wantPaired() {
	r.t.Helper()
	if alone := paired(r.t, r.log.all()); len(alone) > 0 {
		r.t.Errorf("without what has changed: %q of %q", alone, r.since(0))
	}
}

func TestChanges(t *testing.T) {
	api := newFakeAPI(t, "a/x 1", "a/y 1")
	r := live(t, api, changing())
	api.put("a", "x", "2")
	api.put("a", "z", "1")
	api.put("a", "x", "3")
	api.put("a", "z", "2")
	api.del("a", "y")
	api.put("a", "y", "2") // another object
	api.put("a", "y", "3")
	r.caughtUp()
	r.wantPaired()
	for _, e := range r.log.all() {
		if e.Name == "x" && e.ResourceVersion == 103 {
			want := `{"oldObject":{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x","namespace":"a","uid":"uid-1","resourceVersion":"101","labels":{"on":"1"}},"spec":{"rev":101}},` +
				`"changed":["metadata.labels.on","spec.rev"],` +
				`"patch":[{"op":"replace","path":"/metadata/resourceVersion","value":"103"},{"op":"replace","path":"/metadata/labels/on","value":"2"},{"op":"replace","path":"/spec/rev","value":103}],` +
				`"object":{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x","namespace":"a","uid":"uid-1","resourceVersion":"103","labels":{"on":"2"}},"spec":{"rev":103}}}`
			if string(e.Data) != want {
				t.Errorf("data is\n%s\nwant\n%s", e.Data, want)
			}
		}
	}
	if n := r.manager.Targets()[0].Unpaired; n != 0 {
		t.Errorf("%d are counted", n)
	}
}

// TestChangesAsked: an entry gets what it asks for, in one order.
func TestChangesAsked(t *testing.T) {
	for want, asked := range map[string]dynwatch.Changes{
		"object":                   {},
		"oldObject object":         {OldObject: true},
		"changed object":           {Changed: true},
		"patch object":             {Patch: true},
		"oldObject patch object":   {OldObject: true, Patch: true},
		"oldObject changed object": {Changed: true, OldObject: true},
	} {
		api := newFakeAPI(t, "a/x 1")
		wanted := things()
		wanted.Changes = asked
		r := live(t, api, wanted)
		api.put("a", "x", "2")
		r.caughtUp()
		events := r.log.all()
		d := json.NewDecoder(strings.NewReader(string(events[len(events)-1].Data)))
		var names []string
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		for d.More() {
			name, err := d.Token()
			var value json.RawMessage
			if err == nil {
				err = d.Decode(&value)
			}
			must(t, err)
			names = append(names, fmt.Sprint(name))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%+v: %s, want %s", asked, got, want)
		}
	}
}

// TestChangesFoundLater: what a walk, a list, and a restored storage bring, several
// revisions of an object in one batch among it, and what a restart finds.
func TestChangesFoundLater(t *testing.T) {
	t.Run("walk", func(t *testing.T) {
		api := newFakeAPI(t, "a/x 1")
		r := start(t, api, changing())
		n := r.lose(func(api *fakeAPI) {
			for _, label := range []string{"2", "3", "4"} {
				api.put("a", "x", label)
				api.put("a", "new", label)
			}
			api.del("a", "x")
			api.put("a", "x", "5")
			api.put("a", "x", "6")
		})
		r.gap(n)
		r.wantPaired()
		if got := len(r.since(n)); got < 10 {
			t.Errorf("%d events: %q", got, r.since(n))
		}
	})
	t.Run("list", func(t *testing.T) {
		api := newFakeAPI(t)
		api.putMany(150, "1")
		r := start(t, api, changing())
		n := r.lose(func(api *fakeAPI) {
			api.putMany(150, "2")
			api.compact()
		})
		r.gap(n)
		r.wantPaired()
	})
	t.Run("rollback", func(t *testing.T) {
		api := newFakeAPI(t, "a/x 1")
		r := live(t, api, changing())
		api.put("a", "x", "2")
		api.put("a", "x", "3")
		r.caughtUp()
		api.do(func() { api.mute = true })
		api.rollBack(101)
		api.put("a", "x", "4")
		api.do(func() { api.mute = false })
		r.untilEpoch(1)
		r.caughtUp()
		r.wantPaired()
	})
	for _, kill := range []bool{false, true} {
		api := newFakeAPI(t, "a/x 1")
		r := live(t, api, changing())
		api.put("a", "x", "2")
		r.caughtUp()
		r.stop(kill)
		api.put("a", "x", "3")
		api.put("a", "x", "4")
		r.goLive(changing())
		events := r.log.all()
		if alone := paired(t, events); len(alone) > 0 || len(events) != 5 {
			t.Errorf("after a restart (kill: %v): %q, without what has changed: %q", kill, lines(events), alone)
		}
	}
}

// TestChangesSinceTheLastEvent: a change filter holds states back, and what comes then is
// told against what came before.
func TestChangesSinceTheLastEvent(t *testing.T) {
	wanted := changing()
	wanted.EmitWhen.Changed = []string{"metadata.labels"}
	api := newFakeAPI(t, "a/x 1")
	r := live(t, api, wanted)
	for _, label := range []string{"1", "2", "2", "3"} {
		api.put("a", "x", label)
	}
	r.caughtUp()
	events := r.log.all()
	if alone := paired(t, events); len(alone) > 0 || len(events) != 4 {
		t.Errorf("%q, without what has changed: %q", lines(events), alone)
	}
}

// TestChangesUnknown: the log has no body of the event before, or it is damaged there.
func TestChangesUnknown(t *testing.T) {
	for name, damage := range map[string]func(*event.Event){
		"no body":       func(e *event.Event) { e.Data = nil },
		"another event": func(e *event.Event) { e.ResourceVersion-- },
		"no object":     func(e *event.Event) { e.Data = form.CloseData(append(form.OpenData(nil), "1"...)) },
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x 1")
			r := live(t, api, changing())
			r.log.set(func() { damage(&r.log.events[0]) })
			api.put("a", "x", "2")
			r.caughtUp()
			r.log.set(func() { r.log.events = r.log.events[2:] })
			api.put("a", "x", "3")
			r.caughtUp()
			same(t, []string{"modified a/x uid-1 102<101"}, paired(t, r.log.all()))
			if s := r.manager.Targets()[0]; s.Unpaired != 1 {
				t.Errorf("%d are counted", s.Unpaired)
			}
		})
	}
}

// TestAnnouncedAnewIsNoChange: what is announced on request does not say what has
// changed, and what follows is told against it.
func TestAnnouncedAnewIsNoChange(t *testing.T) {
	wanted := changing()
	wanted.EmitWhen.Changed = []string{"metadata.labels"}
	api := newFakeAPI(t, "a/x 1")
	r := live(t, api, wanted)
	api.put("a", "x", "1") // held back, and announced
	r.caughtUp()
	if _, err := r.manager.Resnapshot(t.Context(), "things"); err != nil {
		t.Fatal(err)
	}
	r.eventually("the object anew", func() bool {
		return slices.ContainsFunc(r.log.all(), func(e event.Event) bool { return e.Reannounced() && e.UID != "" })
	})
	api.put("a", "x", "2")
	r.caughtUp()
	r.until(0, event.Modified)
	r.wantPaired()
}

// TestChangesOfMetadata: with mode metadata that is all that can change.
func TestChangesOfMetadata(t *testing.T) {
	wanted := dynwatch.Resource{Group: "example.com", Resource: "thing?", Mode: dynwatch.Metadata, Changes: dynwatch.Changes{Changed: true}}
	api := newWildAPI(t, usual()...)
	api.put("a", "x", "1")
	r := startDefined(t, api, wanted)
	r.targets("example.com/things")
	r.caughtUp()
	api.put("a", "x", "2")
	r.caughtUp()
	events := r.log.all()
	if got := string(events[len(events)-1].Member(event.MemberChanged)); got != `["metadata.labels.on"]` {
		t.Errorf("changed are %s: %q", got, lines(events))
	}
}

// TestChangesOfNow: the content of events changes in a running target, which does not watch again
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
