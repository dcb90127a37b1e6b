package jetstream_test

import (
	"testing"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// told adds to an event what says how its object has changed.
func told(e event.Event, old []byte) event.Event {
	e.Data = event.AddMembers(e.Data, event.Member{Name: event.MemberOld, Value: old},
		event.Member{Name: event.MemberPatch, Value: []byte(`[]`)})
	return e
}

// TestChangesAreNoState: what is read as it happened says how the object has changed, and
// what is read as a state does not.
func TestChangesAreNoState(t *testing.T) {
	j := newHost(t).open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	added := a.event(&now, event.Added)
	modified := told(a.event(&now, event.Modified), []byte(`{"rv":1}`))
	mustAppend(t, j, added, modified)
	if got := read(t, c, 2)[1].Event; string(got.Data) != string(modified.Data) {
		t.Errorf("live came %s, want %s", got.Data, modified.Data)
	}
	mustCommit(t, c, 2)
	last, ok, err := j.Last(t.Context(), &modified)
	if err != nil || !ok || string(last.Data) != string(modified.Data) {
		t.Errorf("Last = %s (%v, %v), want %s", last.Data, ok, err, modified.Data)
	}
	mustResnapshot(t, c, again(7, "core/configmaps"))
	const state = `{"object":{"rv":2}}`
	if got := read(t, c, 2)[1].Event; got.Op != event.Snapshot || string(got.Data) != state {
		t.Errorf("announced anew came %s %s, want %s", got.Op, got.Data, state)
	}
	if got := read(t, mustOpen(t, j, "new", journal.FromSnapshot), 1)[0].Event; got.Op != event.Snapshot || string(got.Data) != state {
		t.Errorf("to a new sink came %s %s, want %s", got.Op, got.Data, state)
	}
}

// TestOversizeChanges: of an event that cannot be kept whole what has changed goes first,
// and then the object.
func TestOversizeChanges(t *testing.T) {
	h := newHostWith(t, 64<<10)
	// An object store that cannot be made.
	if _, err := h.shared().CreateStream(t.Context(), js.StreamConfig{Name: "MINE", Subjects: []string{"$O.INFORMD_OBJECTS.>"}}); err != nil {
		t.Fatal(err)
	}
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	large, small := []byte(`{"n":"`+string(noise(200<<10))+`"}`), []byte(`{"n":1}`)
	of := func(op event.Op, object, old []byte) event.Event {
		e := a.event(&now, op)
		e.Data = event.CloseData(append(event.OpenData(nil), object...))
		return told(e, old)
	}
	mustAppend(t, j, of(event.Added, small, large), of(event.Modified, large, small), of(event.Modified, small, small))
	got := read(t, c, 3)
	for i, want := range []struct{ object, old string }{{string(small), ""}, {"", ""}, {string(small), string(small)}} {
		e := &got[i].Event
		if string(e.Object()) != want.object || string(e.Member(event.MemberOld)) != want.old {
			t.Errorf("event %d has an object of %d bytes and one before of %d, want %d and %d",
				i, len(e.Object()), len(e.Member(event.MemberOld)), len(want.object), len(want.old))
		}
	}
	if got := j.Stats().Oversize; got != 1 {
		t.Errorf("oversize = %d, want 1", got)
	}
}

// TestChangesInTheObjectStore: nothing is left out where there is a place for all of it.
func TestChangesInTheObjectStore(t *testing.T) {
	j := newHostWith(t, 64<<10).open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	e := told((&object{name: "a"}).event(&now, event.Added), []byte(`"`+string(noise(200<<10))+`"`))
	mustAppend(t, j, e)
	if got := read(t, c, 1)[0].Event; string(got.Data) != string(e.Data) {
		t.Errorf("%d bytes came back, want %d", len(got.Data), len(e.Data))
	}
}
