package dynwatch_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// filtered are things of which only the label counts.
func filtered() dynwatch.Resource {
	r := things()
	r.EmitWhen.Changed = []string{"metadata.labels"}
	return r
}

func TestEmitWhenChanged(t *testing.T) {
	api := newFakeAPI(t, "a/x 1")
	r := live(t, api, filtered())
	api.put("a", "x", "1") // 102: held back
	api.put("a", "x", "2")
	api.put("a", "x", "2") // 104: held back
	api.del("a", "x")
	r.caughtUp()
	r.eventually("the end", func() bool { return len(r.log.all()) == 4 })
	r.wantEvents(0, "snapshot a/x uid-1 101", "synced 101", "modified a/x uid-1 103<101", "deleted a/x uid-1 105<103")
	if s := r.manager.Targets()[0]; s.Unchanged != 2 {
		t.Errorf("%d states are counted, want 2", s.Unchanged)
	}
	// The log syncs it before a sink reads it: later states are compared with it.
	if e := r.log.all()[2]; e.Unchanged == nil {
		t.Error("the event does not show that there is a change filter")
	}
}

// TestEmitWhenNoop: what changes nothing of the event but the revision is none; any other change is.
func TestEmitWhenNoop(t *testing.T) {
	revision := regexp.MustCompile(`"spec":\{"rev":\d+\}`)
	api := newFakeAPI(t)
	api.do(func() {
		api.mangle = func(s string) string { return revision.ReplaceAllString(s, `"spec":{}`) }
	})
	api.put("a", "x", "1")
	wanted := things()
	wanted.EmitWhen.SuppressNoop = true
	r := live(t, api, wanted)
	api.put("a", "x", "1")
	api.put("a", "x", "2")
	api.put("a", "x", "2")
	r.caughtUp()
	r.wantEvents(2, "modified a/x uid-1 103<101")
	wanted.Omit = []string{"metadata.labels"}
	must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
	api.put("a", "x", "2") // 105: the first event without labels
	api.put("a", "x", "3")
	r.caughtUp()
	r.wantEvents(3, "modified a/x uid-1 105<103")
}

// TestFiltersSeeWhatEventsHave: a change of what is omitted or not kept is none, and one of a value that
// is hashed is one, whether a rule hashes it or it is that of a Secret.
func TestFiltersSeeWhatEventsHave(t *testing.T) {
	for name, tt := range map[string]struct {
		shape func(*dynwatch.Resource)
		want  []string
	}{
		"all":      {func(*dynwatch.Resource) {}, []string{"modified a/x uid-1 103<101"}},
		"redacted": {func(r *dynwatch.Resource) { r.Redact = []string{"metadata.labels"} }, []string{"modified a/x uid-1 103<101"}},
		"omitted":  {func(r *dynwatch.Resource) { r.Omit = []string{"metadata.labels"} }, nil},
		"not kept": {func(r *dynwatch.Resource) { r.Keep = []string{"spec"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x 1")
			wanted := filtered()
			tt.shape(&wanted)
			r := live(t, api, wanted)
			api.put("a", "x", "1")
			api.put("a", "x", "2")
			api.put("a", "x", "2")
			r.caughtUp()
			r.wantEvents(2, tt.want...)
		})
	}
}

// TestEmitWhenOfNow: change filters change while the watch goes on, and compare with the last event,
// whatever filters there were then.
func TestEmitWhenOfNow(t *testing.T) {
	api := newFakeAPI(t, "a/x 1")
	r := live(t, api, things())
	watches := r.manager.Targets()[0].Watches
	must(t, r.manager.Apply([]dynwatch.Resource{filtered()}))
	api.put("a", "x", "1")
	api.put("a", "x", "2")
	r.caughtUp()
	r.wantEvents(2, "modified a/x uid-1 103<101")
	must(t, r.manager.Apply([]dynwatch.Resource{things()}))
	api.put("a", "x", "2")
	r.caughtUp()
	r.wantEvents(3, "modified a/x uid-1 104<103")
	if s := r.manager.Targets()[0]; s.Watches != watches {
		t.Errorf("%d watches were opened, want %d", s.Watches, watches)
	}
}

// TestHeldBackIsNoDivergence: an audit and a reconcile meet objects at revisions that no
// event has, in the process that held them back and in the next one, and take each for
// what it is; a state that was really left out shows all the same.
func TestHeldBackIsNoDivergence(t *testing.T) {
	const objects = 60
	api := newFakeAPI(t)
	api.putMany(objects, "1")
	r := live(t, api, filtered())
	api.putMany(objects, "1")
	r.caughtUp()
	n := len(r.log.all())
	r.wantAudit(0)
	r.restart(true, filtered())
	r.wantAudit(0)
	asked := api.requestsWith("fieldSelector=metadata.name%3D")
	r.wantAudit(0)
	if again := api.requestsWith("fieldSelector=metadata.name%3D") - asked; again > 0 {
		t.Errorf("%d objects were read once more", again)
	}
	api.forget()
	r.caughtUp()
	r.stop(false)
	api.forget()
	r.goLive(filtered())
	r.wantThings(n)
	api.drop(`"x3"`)
	api.put("a", "x3", "2")
	api.put("a", "x4", "1")
	r.caughtUp()
	r.wantAudit(1)
}

// TestHeldBackByAnEarlierFilter: what a filter held back is no divergence for an audit after the filter
// was edited and the process has begun again. What is left out from then on is.
func TestHeldBackByAnEarlierFilter(t *testing.T) {
	other := things()
	other.EmitWhen.Changed = []string{"spec"}
	for name, then := range map[string]dynwatch.Resource{"no filter": things(), "another filter": other} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x 1", "a/y 1")
			r := live(t, api, filtered())
			api.put("a", "x", "1")
			r.caughtUp()
			r.restart(false, then)
			r.wantAudit(0)
			api.drop(`"y"`)
			api.put("a", "y", "2")
			api.put("a", "z", "1")
			r.caughtUp()
			r.wantAudit(1)
		})
	}
}

// TestAuditAfterSeveralEdits: filters that were edited again and again do not blind later audits: what
// the watch missed comes. An edit of what is omitted is no divergence either.
func TestAuditAfterSeveralEdits(t *testing.T) {
	api := newFakeAPI(t, "a/x 1", "a/y 1")
	r := live(t, api, filtered())
	other, omitting := filtered(), filtered()
	other.EmitWhen.Changed, omitting.Omit = []string{"spec"}, []string{"metadata.annotations"}
	for _, then := range []dynwatch.Resource{other, omitting} {
		api.put("a", "x", "1") // which each filter holds back
		r.caughtUp()
		r.restart(false, then)
		r.wantAudit(0)
	}
	api.drop(`"y"`)
	api.put("a", "y", "2")
	api.put("a", "z", "1")
	r.caughtUp()
	r.restart(false, omitting)
	n := len(r.log.all())
	if _, err := r.manager.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	r.eventually("what the watch missed", func() bool {
		return slices.ContainsFunc(r.log.all()[n:], func(e event.Event) bool { return e.Name == "y" && e.Op == event.Modified })
	})
}

// TestResnapshotOfHeldBack: an object is announced anew in the state that it has, though
// no event had that revision.
func TestResnapshotOfHeldBack(t *testing.T) {
	for restart, then := range map[string]*dynwatch.Resource{"none": nil, "the same filter": new(filtered()), "no filter": new(things())} {
		api := newFakeAPI(t, "a/x 1")
		r := live(t, api, things())
		must(t, r.manager.Apply([]dynwatch.Resource{filtered()}))
		api.put("a", "x", "1")
		r.caughtUp()
		if then != nil {
			r.restart(false, *then)
		}
		results, err := r.manager.Resnapshot(t.Context(), "example.com/things")
		if err != nil {
			t.Fatalf("%+v, %v", results, err)
		}
		api.put("a", "x", "2")
		r.caughtUp()
		var got []string
		for _, e := range r.log.all()[2:] {
			if e.Op == event.Snapshot && !e.Reannounced() {
				t.Errorf("%s is not known to be announced anew", e.ID)
			}
			if !e.Op.Bounds() {
				got = append(got, lines([]event.Event{e})...)
			}
		}
		want := []string{"snapshot a/x uid-1 102<101 replay", "modified a/x uid-1 103<102"}
		if !slices.Equal(got, want) {
			t.Errorf("restart with %s: %q\nwant %q", restart, got, want)
		}
	}
}

// TestFirstListOfALostJournalIsWhole: between its bounds is every object, for a consumer removes the
// others: one that a change filter held back, one of which nothing that a sink asks about has changed
// since, and one that is as it was.
func TestFirstListOfALostJournalIsWhole(t *testing.T) {
	for name, restart := range map[string]func(r *rig){
		"held back before": func(r *rig) {
			r.api.put("a", "held", "1")
			r.caughtUp()
			r.stop(false)
		},
		"held back by the list": func(r *rig) {
			r.stop(false)
			r.api.put("a", "held", "1")
			r.api.forget()
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/held 1", "a/same 1")
			wanted := filtered()
			wanted.SinkFilters = wanted.EmitWhen.Changed
			r := live(t, api, wanted)
			restart(r)
			n := len(r.log.all())
			r.log.set(func() { r.log.void = true })
			wanted.EmitWhen.Changed = nil
			r.begin(wanted)
			r.announcesAll(n)
			for _, e := range r.log.all()[n:] {
				if e.Op == event.Modified {
					t.Errorf("%s may be filtered out by a sink", lines([]event.Event{e}))
				}
			}
			r.stop(false)
			n = len(r.log.all())
			api.put("a", "held", "1")
			r.begin(filtered())
			r.announcesAll(n)
		})
	}
}
