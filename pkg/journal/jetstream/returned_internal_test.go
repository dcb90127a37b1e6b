package jetstream

import (
	"maps"
	"slices"
	"testing"

	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
)

// The record of a sink names the committed deletions. It is read up to maxReturned of them.
func TestReturned(t *testing.T) {
	many := record.Returned{}
	for i := range uint64(record.MaxReturned + 10) {
		many[i+1] = i + 1
	}
	for name, c := range map[string]struct {
		all         record.Returned
		committed   uint64
		first, last uint64
		count       int
	}{
		"none":          {record.Returned{}, 9, 0, 0, 0},
		"one":           {record.Returned{7: 7}, 7, 7, 7, 1},
		"not committed": {record.Returned{7: 12, 3: 3}, 11, 3, 3, 1},
		"large":         {record.Returned{1: 1, 1 << 63: 2}, 2, 1, 1 << 63, 2},
		"many":          {many, 1 << 40, 1, record.MaxReturned, record.MaxReturned},
	} {
		t.Run(name, func(t *testing.T) {
			got := slices.Sorted(maps.Keys(record.ReturnedFrom(c.all.UpTo(c.committed))))
			if len(got) != c.count || c.count > 0 && (got[0] != c.first || got[len(got)-1] != c.last) {
				t.Errorf("%d deletions, %v", len(got), got[:min(len(got), 3)])
			}
		})
	}
	for _, garbage := range []string{"", "!", "gICA", "gICAgICAgICAgICA"} {
		if got := record.ReturnedFrom(garbage); len(got) > 1 {
			t.Errorf("%q gives %v", garbage, got)
		}
	}
}
