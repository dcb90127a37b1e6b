package owner

import (
	"fmt"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// What is kept of objects that are gone is bounded in number and in time.
func TestOwnerRowsAreBounded(t *testing.T) {
	rows, now := newRows(), time.Unix(1_800_000_000, 0)
	const more = 100
	for i := range maxKept + more {
		uid := fmt.Sprint("u", i)
		rows.put(uid, &frame.Owner{UID: "of " + uid})
		rows.remove(uid, now)
		rows.remove(uid, now)
		rows.keep(uid, nil, i%2 == 0, now) // looked up again
	}
	if len(rows.kept) != maxKept || len(rows.queue) != maxKept || len(rows.current) > 0 {
		t.Errorf("%d kept, %d in the queue, %d current", len(rows.kept), len(rows.queue), len(rows.current))
	}
	if _, _, decided := rows.get("u0", now); decided {
		t.Error("the oldest one is still kept")
	}
	last := fmt.Sprint("u", maxKept+more-2)
	if _, known, decided := rows.get(last, now.Add(keptFor)); !known || !decided {
		t.Errorf("known %t, decided %t", known, decided)
	}
	later := now.Add(keptFor + time.Second)
	if _, _, decided := rows.get(last, later); decided {
		t.Error("it is kept for ever")
	}
	rows.keep("another", nil, true, later)
	if len(rows.kept) != 1 || len(rows.queue) != 1 {
		t.Errorf("%d kept, %d in the queue after all have expired", len(rows.kept), len(rows.queue))
	}
}

// A list replaces what was, and what it lacks is kept for a while.
func TestOwnerRowsOfAList(t *testing.T) {
	rows, now := newRows(), time.Unix(1_800_000_000, 0)
	old, next := &frame.Owner{UID: "old"}, &frame.Owner{UID: "next"}
	rows.put("gone", old)
	rows.put("there", old)
	rows.keep("new", nil, false, now) // it was looked for before it was there
	rows.replace(map[string]*frame.Owner{"there": next, "new": nil}, now)
	for uid, want := range map[string]struct {
		owner          *frame.Owner
		known, decided bool
	}{
		"gone": {old, true, true}, "there": {next, true, true}, "new": {nil, true, true}, "never": {nil, false, false},
	} {
		if owner, known, decided := rows.get(uid, now); owner != want.owner || known != want.known || decided != want.decided {
			t.Errorf("%s: %v, known %t, decided %t", uid, owner, known, decided)
		}
	}
}
