package kube

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOpenings: a bounded number of targets have their turn at a time. Targets that hang
// lose it, and a pause that the API server asked for is kept.
func TestOpenings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOpenings(newPace())
		pause := func(seconds int) { o.pace.Note("", tooMany(seconds)) }
		most := atATime(2000, func() func() {
			end := o.Begin(t.Context(), func() {}, time.Second)
			return func() { end(); end() } // a second end gives nothing back
		})
		if most != openingsAtOnce || len(o.turns) != 0 {
			t.Errorf("%d at a time, want %d; %d turns left", most, openingsAtOnce, len(o.turns))
		}

		for range openingsAtOnce {
			o.Begin(t.Context(), func() {}, time.Second) // and never ends
		}
		began, beats := time.Now(), 0
		o.Begin(t.Context(), func() { beats++ }, openingTime/4)()
		if waited := time.Since(began); waited != openingTime || beats == 0 {
			t.Errorf("waited %v behind targets that hang, with %d beats", waited, beats)
		}

		pause(30)
		pause(1) // the longer pause counts
		began = time.Now()
		o.Begin(t.Context(), func() {}, time.Second)()
		if waited := time.Since(began); waited != PaceClosed {
			t.Errorf("waited %v, want the %v that the API server asked for", waited, PaceClosed)
		}

		var all sync.WaitGroup
		refusing, stop := context.WithCancel(t.Context())
		all.Go(func() { // a server that refuses again and again
			for refusing.Err() == nil {
				pause(30)
				<-time.After(PaceClosed / 2)
			}
		})
		synctest.Wait()
		began = time.Now()
		o.Begin(t.Context(), func() {}, time.Second)()
		if waited := time.Since(began); waited != PaceLongest {
			t.Errorf("waited %v, want %v: no target waits for ever", waited, PaceLongest)
		}
		stop()
		all.Wait()

		pause(30)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		o.Begin(ended, func() {}, time.Second)()
	})
}
