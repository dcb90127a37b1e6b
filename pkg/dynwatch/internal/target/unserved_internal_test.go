package target

import (
	"testing"
	"time"
)

// TestUnwatched: what came before a removal is known if a watch was open until then.
func TestUnwatched(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	removed := ago(time.Minute)
	for name, test := range map[string]struct {
		do func(*unwatched)
		// removed is when the news of a definition's removal came, stalled when a long append ended.
		removed, stalled time.Time
		custom, other    bool
	}{
		"closed by the removal": {removed: removed},
		"closed before the removal": {
			do: func(u *unwatched) { u.since = ago(2 * time.Minute); u.deny() }, removed: removed, custom: true, other: true,
		},
		"no news of the removal":          {custom: true},
		"a stall before the removal":      {removed: removed, stalled: ago(2 * time.Minute)},
		"a stall around the removal":      {removed: removed, stalled: removed.Add(-denialLag / 2), custom: true},
		"something else closed the watch": {do: (*unwatched).fail, removed: removed, custom: true, other: true},
		"something else followed":         {do: func(u *unwatched) { u.begin(); u.fail() }, removed: removed, other: true},
		"discovery took its time": {
			do: func(u *unwatched) { u.since, u.denied = ago(2*denialLag), true; u.deny() }, removed: removed,
		},
		"discovery took too long": {
			do: func(u *unwatched) { u.since, u.denied = ago(2*discoveryLag), true; u.deny() }, removed: removed, other: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var u unwatched
			if test.do != nil {
				test.do(&u)
			}
			u.begin()
			u.deny()
			u.unlisted()
			var news *time.Time
			if !test.removed.IsZero() {
				news = &test.removed
			}
			if got := u.lostOfCustom(news, test.stalled); got != test.custom {
				t.Errorf("a custom resource: events can be missing: %t", got)
			}
			if got := u.lost(); got != test.other {
				t.Errorf("another resource: events can be missing: %t", got)
			}
			if u.end(); u.lost() {
				t.Error("events can be missing while a watch is open")
			}
		})
	}
}
