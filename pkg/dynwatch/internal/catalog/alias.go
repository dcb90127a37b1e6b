package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Events are served in two groups: one storage has two names. They are the only resource of
// Kubernetes 1.32 and later with an alias, so a rule decides, and no request.

// isEvents reports whether a resource is the Events, under either name.
func isEvents(one schema.GroupResource) bool {
	return one.Resource == "events" && (one.Group == "" || one.Group == "events.k8s.io")
}

// checkAlias returns [ErrUnusable] if an earlier entry has the objects of the resource under
// another name: this one would announce each of them a second time.
func checkAlias(s Wanted) error {
	if s.Earlier == "" || !isEvents(schema.GroupResource{Group: s.Group, Resource: s.Resource}) {
		return nil
	}
	for group := range strings.SplitSeq(s.Earlier, ",") {
		if other := ParseName(group + "/" + s.Resource); isEvents(other) {
			return fmt.Errorf("%w: the resource is an alias of %s, which has an earlier entry: remove one of the two entries, "+
				"and give the other one the namespaces of both", ErrUnusable, NameOf(other))
		}
	}
	return nil
}

// collect finds the resources that can be watched, those of one storage together.
func (c *Catalog) collect() {
	events := -1
	for _, g := range c.groups {
		seen := make(map[string]bool)
		for _, v := range g.versions {
			for _, name := range slices.Sorted(maps.Keys(v.resources)) {
				if seen[name] {
					continue // a version that counts more decides
				}
				seen[name] = true
				one := schema.GroupResource{Group: g.name, Resource: name}
				switch {
				case !v.resources[name].Watchable:
				case isEvents(one) && events >= 0:
					c.Storages[events] = append(c.Storages[events], one)
				default:
					if isEvents(one) {
						events = len(c.Storages)
					}
					c.Storages = append(c.Storages, []schema.GroupResource{one})
				}
			}
		}
	}
}
