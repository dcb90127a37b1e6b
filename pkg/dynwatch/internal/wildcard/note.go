package wildcard

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
)

// Note is what the log keeps of a wildcard, in the place of a target's checkpoint.
type Note struct {
	// First are the resources that existed at the first expansion, watched or not; in
	// groups that are Unknown nothing could be found out yet.
	First   []string `json:"first"`
	Unknown []string `json:"unknown,omitempty"`
	// Running are the resources that have targets. If one is gone when informd returns, it
	// has deletions to announce.
	Running []string `json:"running"`
}

// looked brings a note up to date with the catalog, and begins one that is nil.
func (n *Note) looked(p Pattern, c *catalog.Catalog) *Note {
	stale := c.Stale()
	next := &Note{}
	if n == nil {
		next.First = p.names(c, anyGroup)
		next.Unknown = slices.DeleteFunc(slices.Clone(stale), func(group string) bool { return !Glob(p.Group, group) })
		return next
	}
	next.First = slices.Clone(n.First)
	for _, group := range n.Unknown {
		if slices.Contains(stale, group) {
			next.Unknown = append(next.Unknown, group)
			continue
		}
		next.First = append(next.First, p.names(c, func(name string) bool { return name == group })...)
	}
	slices.Sort(next.First)
	next.First = slices.Compact(next.First)
	return next
}

// existed reports whether a resource was there at the first expansion.
func (n *Note) existed(one schema.GroupResource) bool {
	_, first := slices.BinarySearch(n.First, catalog.NameOf(one))
	return first || slices.Contains(n.Unknown, one.Group)
}
