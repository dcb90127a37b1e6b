package store

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestFailureEndsWithItsCaller: the journal is unusable while a call fails, and no longer when
// that call is not made any more: its caller has given up, or the journal was opened again.
func TestFailureEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth()
		h.watch(func() string { return "" }, func() error { return nil })
		fail := func() { h.report("append", errors.New("no response from stream")) }
		usable := func() bool { ok, _ := h.State(); return ok }
		for range 60 { // two minutes
			fail()
			<-time.After(2 * time.Second)
		}
		if usable() {
			t.Error("usable although a call has failed for two minutes")
		}
		<-time.After(repeatedWithin)
		if !usable() {
			t.Error("not usable although nothing fails any more")
		}
		fail()
		if !usable() {
			t.Error("not usable because of one failure")
		}
		<-time.After(failingFor)
		fail()
		if usable() {
			t.Error("usable although a call fails again")
		}
		h.report("append", nil)
		if !usable() {
			t.Error("not usable although the call works again")
		}
	})
}
