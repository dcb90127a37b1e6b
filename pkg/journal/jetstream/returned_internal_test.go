package jetstream

import (
	"maps"
	"slices"
	"testing"
)

// The record of a sink names the committed deletions. It is read up to maxReturned of them.
func TestReturned(t *testing.T) {
	many := returned{}
	for i := range uint64(maxReturned + 10) {
		many[i+1] = i + 1
	}
	for name, c := range map[string]struct {
		all         returned
		committed   uint64
		first, last uint64
		count       int
	}{
		"none":          {returned{}, 9, 0, 0, 0},
		"one":           {returned{7: 7}, 7, 7, 7, 1},
		"not committed": {returned{7: 12, 3: 3}, 11, 3, 3, 1},
		"large":         {returned{1: 1, 1 << 63: 2}, 2, 1, 1 << 63, 2},
		"many":          {many, 1 << 40, 1, maxReturned, maxReturned},
	} {
		t.Run(name, func(t *testing.T) {
			got := slices.Sorted(maps.Keys(returnedFrom(c.all.upTo(c.committed))))
			if len(got) != c.count || c.count > 0 && (got[0] != c.first || got[len(got)-1] != c.last) {
				t.Errorf("%d deletions, %v", len(got), got[:min(len(got), 3)])
			}
		})
	}
	for _, garbage := range []string{"", "!", "gICA", "gICAgICAgICAgICA"} {
		if got := returnedFrom(garbage); len(got) > 1 {
			t.Errorf("%q gives %v", garbage, got)
		}
	}
}
