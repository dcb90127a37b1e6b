package status

import (
	"math"
	"sync"
	"testing"
	"time"
)

// clock is a time that the test moves on.
type clock struct{ start, now time.Time }

func newClock() *clock {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	return &clock{start, start}
}

// steady adds events evenly for a time.
func (c *clock) steady(r *rate, perSecond int, length time.Duration) {
	for end := c.now.Add(length); c.now.Before(end); {
		c.now = c.now.Add(time.Second / time.Duration(perSecond))
		r.add(1, c.now)
	}
}

func TestRate(t *testing.T) {
	cases := map[string]struct {
		happens func(c *clock, r *rate)
		want    float64
	}{
		"nothing":                       {func(*clock, *rate) {}, 0},
		"nothing for a day":             {func(c *clock, _ *rate) { c.now = c.now.Add(24 * time.Hour) }, 0},
		"steady, after 2 seconds":       {func(c *clock, r *rate) { c.steady(r, 10, 2*time.Second) }, 10},
		"steady, after a minute":        {func(c *clock, r *rate) { c.steady(r, 10, time.Minute) }, 10},
		"steady, after an hour":         {func(c *clock, r *rate) { c.steady(r, 10, time.Hour) }, 10},
		"a burst in the first moment":   {func(c *clock, r *rate) { r.add(1000, c.now) }, 1000},
		"half, a minute after the end":  {func(c *clock, r *rate) { c.steady(r, 10, time.Hour); c.now = c.now.Add(time.Minute) }, 5},
		"three quarters of a new rate":  {func(c *clock, r *rate) { c.now = c.now.Add(time.Hour); c.steady(r, 20, 2*time.Minute) }, 15},
		"nothing, a day after the end":  {func(c *clock, r *rate) { c.steady(r, 10, time.Hour); c.now = c.now.Add(24 * time.Hour) }, 0},
		"read by a clock that is early": {func(c *clock, r *rate) { c.steady(r, 10, time.Hour); c.now = c.now.Add(-time.Second) }, 10},
		"added by a clock that is early": {func(c *clock, r *rate) {
			c.steady(r, 10, time.Hour)
			r.add(0, c.now.Add(-time.Second))
		}, 10},
		"read before the start": {func(c *clock, r *rate) { r.add(7, c.now); c.now = c.now.Add(-time.Hour) }, 7},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			r := newRate(clock.start)
			c.happens(clock, r)
			for range 2 { // reading changes nothing
				if got := r.perSecond(clock.now); math.Abs(got-c.want) > 0.05*c.want+1e-9 {
					t.Errorf("%v events a second, want %v", got, c.want)
				}
			}
		})
	}
}

func TestRateAllocatesNothing(t *testing.T) {
	c := newClock()
	r := newRate(c.start)
	if n := testing.AllocsPerRun(100, func() {
		c.now = c.now.Add(time.Second)
		r.add(1, c.now)
		r.perSecond(c.now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRateIsReadWhileItChanges(t *testing.T) {
	c := newClock()
	r := newRate(c.start)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 1000 {
				if got := r.perSecond(c.start); got < 0 || got > 1010 {
					t.Errorf("%v events a second of at most 1000", got)
					return
				}
			}
		})
	}
	for range 1000 {
		r.add(1, c.start)
	}
	readers.Wait()
	if got := r.perSecond(c.start); math.Abs(got-1000) > 10 {
		t.Errorf("%v events a second after 1000 in the first", got)
	}
}
