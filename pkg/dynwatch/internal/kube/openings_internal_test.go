package kube

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOpenings: a bounded number of targets have their turn at a time. Targets that hang
// lose it, and a pause that the API server asked for is kept.
func TestOpenings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOpenings(slog.New(slog.DiscardHandler))
		var mu sync.Mutex
		var now, most int
		count := func(change int) {
			mu.Lock()
			defer mu.Unlock()
			now += change
			most = max(most, now)
		}
		var all sync.WaitGroup
		for range 2000 {
			all.Go(func() {
				end := o.Begin(t.Context(), func() {}, time.Second)
				count(1)
				<-time.After(10 * time.Millisecond)
				count(-1)
				end()
				end() // a second end gives nothing back
			})
		}
		all.Wait()
		if most != openingsAtOnce || len(o.turns) != 0 || o.waiting.Load() != 0 {
			t.Errorf("%d at a time, want %d; %d turns left, %d waiting", most, openingsAtOnce, len(o.turns), o.waiting.Load())
		}

		for range openingsAtOnce {
			o.Begin(t.Context(), func() {}, time.Second) // and never ends
		}
		began, beats := time.Now(), 0
		o.Begin(t.Context(), func() { beats++ }, openingTime/4)()
		if waited := time.Since(began); waited != openingTime || beats == 0 {
			t.Errorf("waited %v behind targets that hang, with %d beats", waited, beats)
		}

		o.Pause(PaceClosed)
		o.Pause(time.Second) // the longer pause counts
		began = time.Now()
		o.Begin(t.Context(), func() {}, time.Second)()
		if waited := time.Since(began); waited != PaceClosed {
			t.Errorf("waited %v, want the %v that the API server asked for", waited, PaceClosed)
		}

		<-time.After(time.Minute)
		began = time.Now()
		refusing, stop := context.WithCancel(t.Context())
		all.Go(func() { // one resource that is refused again and again
			for refusing.Err() == nil {
				o.Pause(PaceClosed)
				<-time.After(PaceClosed / 2)
			}
		})
		synctest.Wait()
		o.Begin(t.Context(), func() {}, time.Second)()
		if waited := time.Since(began); waited != PaceLongest {
			t.Errorf("waited %v, want %v: one refused resource holds up the others", waited, PaceLongest)
		}
		<-time.After(PaceClosed/2 - time.Second) // the minute is not over
		if o.paused() > 0 {
			t.Error("no time without a pause")
		}
		stop()
		all.Wait()
		<-time.After(time.Minute)

		o.Pause(time.Hour)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		o.Begin(ended, func() {}, time.Second)()
	})
}
