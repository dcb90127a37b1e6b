package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
)

// Difference is a resource, a sink or a key that differs between two configs.
type Difference struct {
	// Kind is resource, sink or key. Name is the name of the resource as kubectl has it,
	// the name of the sink, or the key.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Change is added, removed or changed.
	Change string `json:"change"`
}

// Differences lists what a reload from c to next changes; see [Config.Replaces].
func (c *Config) Differences(next *Config) []Difference {
	found := differ("resource", c.resourcesByName(), next.resourcesByName(), func(a, b Resource) bool { return reflect.DeepEqual(a, b) })
	found = append(found, differ("sink", c.sinksByName(), next.sinksByName(), Sink.Same)...)
	for key, same := range map[string]bool{
		"resources": slices.Equal(c.orderOf(next), next.orderOf(c)), "log.level": c.Log.Level == next.Log.Level,
		"kubernetes.maxWatches": c.Kubernetes.MaxWatches == next.Kubernetes.MaxWatches,
	} {
		if !same {
			found = append(found, Difference{"key", key, "changed"})
		}
	}
	slices.SortStableFunc(found, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(b.Kind, a.Kind), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// differ compares two sets of things by name.
func differ[T any](kind string, was, is map[string]T, same func(a, b T) bool) (found []Difference) {
	for name := range maps.Keys(was) {
		if _, ok := is[name]; !ok {
			found = append(found, Difference{kind, name, "removed"})
		}
	}
	for name, now := range is {
		before, ok := was[name]
		switch {
		case !ok:
			found = append(found, Difference{kind, name, "added"})
		case !same(before, now):
			found = append(found, Difference{kind, name, "changed"})
		}
	}
	return found
}

// resourcesByName are the entries of resources without their positions. A resource has one
// entry.
func (c *Config) resourcesByName() map[string]Resource {
	all := make(map[string]Resource)
	for _, r := range c.Resources {
		r.Pos = Pos{}
		all[KubectlName(r.Group, r.Resource)] = r
	}
	return all
}

// orderOf are the names of the entries that the other config has as well, in their order: the first wildcard that
// matches a resource takes it, and of two names of one storage, such as events and events.events.k8s.io, informd
// watches the first.
func (c *Config) orderOf(other *Config) (names []string) {
	known := other.resourcesByName()
	for _, r := range c.Resources {
		name := KubectlName(r.Group, r.Resource)
		if _, ok := known[name]; ok {
			names = append(names, name)
		}
	}
	return names
}

func (c *Config) sinksByName() map[string]Sink {
	all := make(map[string]Sink)
	for _, s := range c.Sinks {
		all[s.Name] = s
	}
	return all
}
