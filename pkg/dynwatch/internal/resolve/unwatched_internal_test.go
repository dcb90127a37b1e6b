package resolve

import (
	"testing"
	"time"
)

// TestUnwatched: a watch counts as closed by the removal if the API server denies the
// resource at once, and the definition has not changed around the end of the watch.
func TestUnwatched(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	at := func(d time.Duration) *time.Time { when := ago(d); return &when }
	for name, test := range map[string]struct {
		closed    Unwatched
		redefined *time.Time
		want      bool
	}{
		"closed by the removal":                  {closed: Unwatched{}},
		"the definition changed long before":     {redefined: at(time.Minute)},
		"it changed, which closed the watch":     {redefined: at(time.Millisecond), want: true},
		"it changed after that":                  {closed: Unwatched{since: ago(time.Second)}, redefined: at(0), want: true},
		"it took long to be denied":              {closed: Unwatched{since: ago(2 * handover)}, want: true},
		"discovery took its time, denied soon":   {closed: Unwatched{since: ago(2 * handover), denied: true}},
		"discovery took too long":                {closed: Unwatched{since: ago(2 * discoveryLag), denied: true}, want: true},
		"something else kept it from being open": {closed: Unwatched{unknown: true}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			u := test.closed
			u.Begin()
			u.Denied()
			u.unlisted()
			if got := u.lost(test.redefined); got != test.want {
				t.Errorf("events can be missing: %t", got)
			}
			if u.End(); u.lost(test.redefined) {
				t.Error("events can be missing while a watch is open")
			}
		})
	}
}
