package jetstream_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// swept waits until the janitor has looked through everything up to a sequence.
func swept(t *testing.T, h *host, seq uint64) {
	t.Helper()
	state, err := h.shared().Stream(t.Context(), "INFORMD_STATE")
	if err != nil {
		t.Fatal(err)
	}
	until(t, "everything is looked through", func() bool {
		var s struct {
			Last uint64 `json:"last"`
		}
		m, err := state.GetLastMsgForSubject(t.Context(), "INFORMD_STATE.janitor")
		if err == nil {
			err = json.Unmarshal(m.Data, &s)
		}
		return err == nil && s.Last >= seq
	})
}

// reuseBehind is reuse with the deletion passed by the only sink that is open.
func reuseBehind(t *testing.T, h *host, j *jetstream.Journal, stays journal.Cursor, now *clock, o *object) {
	t.Helper()
	mustAppend(t, j, o.event(now, event.Deleted))
	end := j.Stats().LastSeq
	mustCommit(t, stays, end)
	until(t, "the position is saved", func() bool { return savedPosition(t, h, "stays") == end })
	mustAppend(t, j, o.event(now, event.Added))
	for range 4 {
		mustAppend(t, j, o.event(now, event.Modified))
	}
}

// TestSinkThatIsPutBack: while a sink is not open, whether it was closed or informd was
// killed and started without it, no deletion is trimmed that it has not got. The
// history goes, and it is told how much.
func TestSinkThatIsPutBack(t *testing.T) {
	for name, close := range map[string]bool{"closed": true, "killed": false} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			j := h.open(history(4))
			stays, goes := mustOpen(t, j, "stays", journal.FromNow), mustOpen(t, j, "goes", journal.FromNow)
			var now clock
			a, b := &object{name: "a"}, &object{name: "b"}
			mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added))
			for _, c := range []journal.Cursor{stays, goes} {
				mustCommit(t, c, 2)
			}
			until(t, "the positions are saved", func() bool { return savedPosition(t, h, "goes") == 2 && savedPosition(t, h, "stays") == 2 })
			if close {
				mustClose(t, goes)
			} else {
				mustClose(t, j)
				j = h.open(history(4))
				stays = mustOpen(t, j, "stays", journal.FromNow)
				if _, err := j.Restore(t.Context(), "core/configmaps", func(event.Event) {}); err != nil {
					t.Fatal(err)
				}
			}
			reuseBehind(t, h, j, stays, &now, a) // 3, the copy 4, 5-9
			mustAppend(t, j, b.event(&now, event.Modified), b.event(&now, event.Deleted))
			mustCommit(t, stays, 11)
			mustClose(t, j)
			j = h.open(history(4), scanning)
			mustOpen(t, j, "stays", journal.FromNow)
			swept(t, h, 11)
			goes = mustOpen(t, j, "goes", journal.FromNow)
			want := describe("0 gap goes:3-11:trimmed trimmed 3", "4 deleted a-1:deleted", "6 modified a-4:5", "7 modified a-4:6", "8 modified a-4:7",
				"9 modified a-4:8", "11 deleted b-2:deleted")
			if diff := cmp.Diff(want, show(read(t, goes, 7))); diff != "" {
				t.Errorf("the sink that is back (-want +got):\n%s", diff)
			}
			mustCommit(t, goes, 11)
			until(t, "the copy is gone", func() bool { return messages(t, h) == 5 })
			mustAppend(t, j, a.event(&now, event.Deleted))
			if got := show(read(t, goes, 1)); got != describe("12 deleted a-4:deleted") {
				t.Errorf("then came %s", got)
			}
		})
	}
}

// TestSinkThatStaysAway: after DeletedRetention nothing is kept for it any more, whether
// informd is restarted meanwhile or not.
func TestSinkThatStaysAway(t *testing.T) {
	h := newHost(t)
	short := func(c *jetstream.Config) { c.DeletedRetention = 500 * time.Millisecond }
	j := h.open(history(4), scanning, short)
	stays, goes := mustOpen(t, j, "stays", journal.FromNow), mustOpen(t, j, "goes", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	mustCommit(t, stays, 1)
	left := time.Now()
	mustClose(t, goes)
	reuseBehind(t, h, j, stays, &now, a)
	kept := j.Stats().LastSeq == 8 // with the copy
	if !kept && time.Since(left) < 400*time.Millisecond {
		t.Error("there is no copy")
	}
	mustCommit(t, stays, j.Stats().LastSeq)
	mustClose(t, j)
	j = h.open(history(4), scanning, short)
	stays = mustOpen(t, j, "stays", journal.FromNow)
	until(t, "the copy is gone", func() bool { return messages(t, h) == 4 })
	if passed := time.Since(left); kept && passed < 400*time.Millisecond {
		t.Errorf("the copy is gone after %s", passed)
	}
	if _, err := j.Restore(t.Context(), "core/configmaps", func(event.Event) {}); err != nil {
		t.Fatal(err)
	}
	before := j.Stats().LastSeq
	mustCommit(t, stays, before)
	until(t, "the position is saved", func() bool { return savedPosition(t, h, "stays") == before })
	deleted := a.event(&now, event.Deleted)
	mustAppend(t, j, deleted)
	mustCommit(t, stays, before+1)
	until(t, "the position is saved", func() bool { return jetstream.Durable(stays) == before+1 })
	mustAppend(t, j, a.event(&now, event.Added))
	if last := j.Stats().LastSeq; last != before+2 {
		t.Errorf("the log ends at %d, want %d: there is a copy", last, before+2)
	}
}
