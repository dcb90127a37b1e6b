package jetstream

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
		last     known
		expected uint64
		want     verdict
		err      error
	}{
		"the event itself":                  {added, known{7, added}, 0, held, nil},
		"nothing has changed":               {modified, known{7, a(event.Modified, "u", 99, 0, 0)}, 7, again, nil},
		"new, nothing there":                {added, known{}, 3, again, nil},
		"predecessor gone":                  {modified, known{}, 3, again, ErrLost},
		"predecessor there":                 {modified, known{7, added}, 3, again, nil},
		"older than the predecessor":        {modified, known{7, a(event.Added, "u", 4, 0, 0)}, 8, again, ErrLost},
		"newer than the event":              {modified, known{7, a(event.Modified, "u", 10, 9, 0)}, 3, again, ErrFenced},
		"between predecessor and event":     {modified, known{7, a(event.Modified, "u", 7, 5, 0)}, 3, again, ErrFenced},
		"of an older epoch":                 {a(event.Modified, "u", 4, 3, 1), known{7, modified}, 3, again, nil},
		"of a younger epoch":                {modified, known{7, a(event.Modified, "u", 2, 1, 1)}, 3, again, ErrFenced},
		"end of another uid":                {a(event.Added, "v", 12, 0, 0), known{7, a(event.Deleted, "u", 11, 9, 0)}, 3, again, nil},
		"newer end of another uid":          {added, known{7, a(event.Deleted, "v", 11, 9, 0)}, 3, again, ErrFenced},
		"other uid instead of predecessor":  {modified, known{7, a(event.Added, "v", 3, 0, 0)}, 8, again, ErrLost},
		"deletion behind its predecessor":   {a(event.Deleted, "u", 9, 5, 0), known{7, added}, 3, again, nil},
		"control record":                    {event.Event{ID: "x", Op: event.Gap}, known{7, event.Event{ID: "y", Op: event.Gap}}, 3, again, nil},
		"begins anew over an older message": {a(event.Snapshot, "u", 9, 0, 0), known{7, added}, 0, again, nil},
		"behind a message that is no event": {added, known{7, event.Event{}}, 0, again, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := judge(&test.event, test.last, test.expected)
			if got != test.want || !errors.Is(err, test.err) || (err != nil) != (test.err != nil) {
				t.Errorf("judge = %v, %v; want %v, %v", got, err, test.want, test.err)
			}
		})
	}
}
