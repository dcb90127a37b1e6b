package selection

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
)

// TestFilteredOutNamespacesAreBounded: namespaces come and go for years, and their store has other
// revisions, so that none of them is pruned. What is forgotten counts as unknown, which makes a gap.
func TestFilteredOutNamespacesAreBounded(t *testing.T) {
	const names, first = 100_000, uint64(1000)
	cases := map[string]func(*Coverage, string, uint64){
		"frames": func(c *Coverage, name string, rv uint64) {
			c.leftOut.add(LeftFrame{Kind: watch.Added, Namespace: name, Name: "x", RV: rv})
		},
		"unmatched namespaces": func(c *Coverage, name string, rv uint64) { c.LeftOutSince(name, rv) },
	}
	for name, note := range cases {
		t.Run(name, func(t *testing.T) {
			apart, together := Coverage{Apart: true}, Coverage{}
			for _, c := range []*Coverage{&apart, &together} {
				c.ForgetLeftOut(first - 1)
				most := 0
				for i := range uint64(names) {
					note(c, fmt.Sprint("team-", i), first+i)
					most = max(most, len(c.leftOut.last), len(c.leftOut.told))
				}
				if most > 20_000 {
					t.Errorf("up to %d names of namespaces are kept", most)
				}
			}
			last := first + names
			if a := apart.Arrive("team-0", Turned{}, last, 0); a.Known || a.After > first {
				t.Errorf("another store: frames after %d are known: %t", a.After, a.Known)
			}
			if a := together.Arrive("team-0", Turned{since: first + 1, after: first - 1}, last, 0); a.Known {
				t.Error("the same store: the frames since a forgotten revision count as known")
			}
			if a := together.Arrive("team-0", Turned{since: last + 1, after: last}, last, 0); !a.Known {
				t.Error("the same store: a namespace that matches later has no other frames")
			}
		})
	}
}
