package jetstream_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// TestLast: the last event of an object is what was appended last, from the newest
// events that the journal has in memory, and from the server, its own or another one.
func TestLast(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprint("own ", own), func(t *testing.T) {
			h := newHostWith(t, 64<<10)
			ours := func(c *jetstream.Config) { c.Own = own }
			j := h.open(ours)
			var now clock
			a, b, gone := &object{name: "a"}, &object{name: "b"}, &object{name: "gone"}
			mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added), gone.event(&now, event.Added))
			modified, large, deleted := a.event(&now, event.Modified), b.event(&now, event.Modified), gone.event(&now, event.Deleted)
			large.Data = fmt.Appendf(nil, `{"object":%q}`, noise(200<<10))
			mustAppend(t, j, modified, large, deleted)
			never := (&object{name: "never"}).event(&now, event.Added)
			look := func(j *jetstream.Journal, where string) {
				t.Helper()
				for _, want := range []event.Event{modified, large, deleted} {
					got, ok, err := j.Last(t.Context(), &event.Event{
						Op: event.Modified, Cluster: "test", Version: "v1", Resource: "configmaps", Namespace: "default", Name: want.Name,
					})
					if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
						t.Errorf("%s, last of %s (%v, %v), -want +got:\n%.2000s", where, want.Name, ok, err, diff)
					}
				}
				if got, ok, err := j.Last(t.Context(), &never); ok || err != nil {
					t.Errorf("%s, last of what never was: %+v, %v, %v", where, got, ok, err)
				}
			}
			look(j, "of this process")
			mustClose(t, j)
			j = h.open(ours)
			look(j, "of an earlier process")
			again := a.event(&now, event.Modified)
			mustAppend(t, j, again)
			if got, ok, err := j.Last(t.Context(), &modified); !ok || err != nil || got.ID != again.ID {
				t.Errorf("then last is %s (%v, %v), want %s", got.ID, ok, err, again.ID)
			}
		})
	}
}
