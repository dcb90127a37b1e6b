package conflict

import (
	"errors"
	"testing"

	"github.com/informd/informd/pkg/event"
)

func TestJudge(t *testing.T) {
	a := func(op event.Op, uid string, rv, prev, epoch uint64) event.Event {
		e := event.Event{ID: event.ObjectID(uid, rv, epoch), Op: op, UID: uid, Resource: "pods", Name: "a", ResourceVersion: rv, PrevResourceVersion: prev, Epoch: epoch}
		if op == event.Deleted {
			e.ID = event.DeletedID(uid, epoch)
		}
		return e
	}
	added := a(event.Added, "u", 5, 0, 0)
	modified := a(event.Modified, "u", 9, 5, 0)
	tests := map[string]struct {
		event    event.Event
		last     Last
		expected uint64
		want     Outcome
		err      error
	}{
		"the event itself":                  {added, Last{7, added}, 0, Held, nil},
		"nothing has changed":               {modified, Last{7, a(event.Modified, "u", 99, 0, 0)}, 7, Again, nil},
		"new, nothing there":                {added, Last{}, 3, Again, nil},
		"predecessor gone":                  {modified, Last{}, 3, Again, ErrLost},
		"predecessor there":                 {modified, Last{7, added}, 3, Again, nil},
		"older than the predecessor":        {modified, Last{7, a(event.Added, "u", 4, 0, 0)}, 8, Again, ErrLost},
		"newer than the event":              {modified, Last{7, a(event.Modified, "u", 10, 9, 0)}, 3, Again, ErrFenced},
		"between predecessor and event":     {modified, Last{7, a(event.Modified, "u", 7, 5, 0)}, 3, Again, ErrFenced},
		"of an older epoch":                 {a(event.Modified, "u", 4, 3, 1), Last{7, modified}, 3, Again, nil},
		"of a younger epoch":                {modified, Last{7, a(event.Modified, "u", 2, 1, 1)}, 3, Again, ErrFenced},
		"end of another uid":                {a(event.Added, "v", 12, 0, 0), Last{7, a(event.Deleted, "u", 11, 9, 0)}, 3, Again, nil},
		"newer end of another uid":          {added, Last{7, a(event.Deleted, "v", 11, 9, 0)}, 3, Again, ErrFenced},
		"other uid instead of predecessor":  {modified, Last{7, a(event.Added, "v", 3, 0, 0)}, 8, Again, ErrLost},
		"deletion behind its predecessor":   {a(event.Deleted, "u", 9, 5, 0), Last{7, added}, 3, Again, nil},
		"control record":                    {event.Event{ID: "x", Op: event.Gap}, Last{7, event.Event{ID: "y", Op: event.Gap}}, 3, Again, nil},
		"begins anew over an older message": {a(event.Snapshot, "u", 9, 0, 0), Last{7, added}, 0, Again, nil},
		"behind a message that is no event": {added, Last{7, event.Event{}}, 0, Again, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(&test.event, test.last, test.expected)
			if got != test.want || !errors.Is(err, test.err) || (err != nil) != (test.err != nil) {
				t.Errorf("judge = %v, %v; want %v, %v", got, err, test.want, test.err)
			}
		})
	}
}
