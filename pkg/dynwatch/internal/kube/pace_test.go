package kube

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// atATime has so many targets have their turn for a moment, and returns how many had it at a time.
func atATime(targets int, begin func() (end func())) (most int) {
	var mu sync.Mutex
	now := 0
	count := func(change int) {
		mu.Lock()
		defer mu.Unlock()
		now += change
		most = max(most, now)
	}
	var all sync.WaitGroup
	for range targets {
		all.Go(func() {
			end := begin()
			count(1)
			<-time.After(10 * time.Millisecond)
			count(-1)
			end()
		})
	}
	all.Wait()
	return most
}

// tooMany is a 429 of a server that wants to be left alone for so many seconds.
func tooMany(seconds int) error {
	return apierrors.NewGenericServerResponse(http.StatusTooManyRequests, "get", schema.GroupResource{}, "", "too many", seconds, true)
}

// TestPace: so many have their turn at a time, in whatever order, and who hangs
// does not keep the others from theirs.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		if most := atATime(300, func() func() { return p.Begin(t.Context(), "apps") }); most != PaceWidth {
			t.Errorf("%d at a time, want %d", most, PaceWidth)
		}
		if most := atATime(300, func() func() { return p.BeginHead(t.Context(), "apps") }); most != HeadWidth {
			t.Errorf("%d heads at a time, want %d", most, HeadWidth)
		}
		for range PaceWidth {
			p.Begin(t.Context(), "apps") // and never ends
		}
		began := time.Now()
		p.Begin(t.Context(), "apps")()
		if waited := time.Since(began); waited != paceWait {
			t.Errorf("waited %v behind those that hang", waited)
		}
		began = time.Now()
		p.Begin(t.Context(), "apps")()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the next one waited %v as well", waited)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		p.Begin(ended, "apps")()
	})
}

// TestOverloadHoldsNobodyForEver: refusals of other requests do not keep one from being
// made.
func TestOverloadHoldsNobodyForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		refused := tooMany(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		p.Note("", refused)
		var others sync.WaitGroup
		others.Go(func() {
			for ctx.Err() == nil {
				<-time.After(time.Second / 2)
				p.Note("", refused)
			}
		})
		began := time.Now()
		p.Open(ctx, "apps")
		if waited := time.Since(began); waited != PaceLongest {
			t.Errorf("waited %v, want %v", waited, PaceLongest)
		}
		cancel()
		others.Wait()
	})
}

// TestOverloadOfOneGroup: the server of one group holds up no other group. Two groups at a time are the
// server of all.
func TestOverloadOfOneGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		refused := tooMany(20)
		waits := func(group string) time.Duration {
			began := time.Now()
			p.Open(t.Context(), group)
			return time.Since(began)
		}
		p.Note("metrics.example.com", refused)
		if waited := waits("apps"); waited != 0 {
			t.Errorf("another group waited %v", waited)
		}
		if waited := waits("metrics.example.com"); waited < 20*time.Second {
			t.Errorf("the group waited %v", waited)
		}
		p.Note("metrics.example.com", refused)
		p.Note("apps", refused)
		if waited := waits("batch"); waited < 20*time.Second {
			t.Errorf("with two groups refused a third waited %v", waited)
		}
	})
}

// TestBudget: requests come back over time, and all that one asks for or none are taken.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(int(historyPeriod.Seconds())) // one a second
		for i, want := range []bool{true, false, true} {
			if got := b.AllowN(time.Now(), []int{260, 50, 40}[i]); got != want {
				t.Errorf("take %d: %v", i, got)
			}
		}
		b.AllowN(time.Now(), -10)
		<-time.After(20 * time.Second)
		if b.AllowN(time.Now(), 31) || !b.AllowN(time.Now(), 30) {
			t.Error("10 were given back and 20 came back")
		}
		<-time.After(time.Hour)
		b.AllowN(time.Now(), -10)
		if b.AllowN(time.Now(), 301) || !b.AllowN(time.Now(), 300) || b.Allow() {
			t.Error("there are never more than at the beginning")
		}
	})
}

// Whenever they look at the clock, all targets meet at the same instants, and never at
// once.
func TestUntilNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{time.Second, 10 * time.Second, 7 * time.Millisecond} {
			for _, later := range []time.Duration{0, 1, d/3 + 1, d - 1, d, d + 1} {
				<-time.After(later)
				wait := UntilNext(d)
				if wait <= 0 || wait > d {
					t.Errorf("at %v one waits %v for the next %v", time.Now(), wait, d)
				}
				if at := time.Now().Add(wait); !at.Equal(at.Truncate(d)) {
					t.Errorf("at %v one waits until %v, no multiple of %v", time.Now(), at, d)
				}
			}
		}
	})
}
