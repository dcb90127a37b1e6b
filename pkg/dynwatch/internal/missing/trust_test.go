package missing

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTrust: lists are not believed for a day after the last mismatch, and mismatches are
// counted by the hour.
func TestTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trust Trust
		if trust.Lost() {
			t.Error("trust is lost without a mismatch")
		}
		for want := 1; want <= 3; want++ {
			if got := trust.Convict(time.Now()); got != want {
				t.Errorf("%d mismatches within an hour, want %d", got, want)
			}
		}
		<-time.After(time.Hour + time.Second)
		if got := trust.Convict(time.Now()); got != 1 {
			t.Errorf("%d mismatches within the next hour, want 1", got)
		}
		<-time.After(distrustFor - time.Second)
		if !trust.Lost() {
			t.Error("trust is back before a day has passed")
		}
		<-time.After(2 * time.Second)
		if trust.Lost() {
			t.Error("trust is lost for more than a day")
		}
	})
}
