package chaos

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestNemesisGoesOn: faults that hold one part for long hold up no fault of other
// parts, and one that needs all parts gets its turn.
func TestNemesisGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holding := func(d time.Duration) func(*attack) error {
			return func(a *attack) error { a.hold(d, d); return nil }
		}
		n := &Nemesis{
			rig: &Rig{}, random: rand.New(rand.NewPCG(1, 2)), out: io.Discard, busy: make(map[string]bool), freed: make(chan struct{}),
			faults: []*fault{
				{"L1-long", []string{"link"}, nil, holding(time.Minute)},
				{"L2-long", []string{"link"}, nil, holding(time.Minute)},
				{"S1-short", []string{"bus"}, nil, holding(time.Second)},
				{"S2-short", []string{"hook"}, nil, holding(time.Second)},
				{"A1-all", []string{"all"}, nil, holding(time.Second)},
			},
		}
		n.Run(context.WithoutCancel(t.Context()), 20*time.Minute)
		counts := make(map[string]int)
		strikes := n.Strikes()
		for i, s := range strikes {
			counts[s.Fault]++
			for _, other := range strikes[:i] {
				apart := !other.Healed.After(s.Began)
				if clash := slices.Contains(s.touches, "all") || slices.Contains(other.touches, "all") || slices.Equal(s.touches, other.touches); clash && !apart {
					t.Errorf("%s began while %s was not healed", s.Fault, other.Fault)
				}
			}
		}
		if counts["L1-long"] < 4 || counts["L2-long"] < 4 || counts["A1-all"] < 4 || counts["S1-short"] < 50 || counts["S2-short"] < 50 {
			t.Errorf("strikes: %v", counts)
		}
	})
}
