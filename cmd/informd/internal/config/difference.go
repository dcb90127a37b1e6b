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
	found := differ("resource", c.resourcesByName(), next.resourcesByName(), func(a, b []Resource) bool { return reflect.DeepEqual(a, b) })
	found = append(found, differ("sink", c.sinksByName(), next.sinksByName(), Sink.Same)...)
	for key, same := range map[string]bool{
		"resources": slices.Equal(c.wildcardsOf(next), next.wildcardsOf(c)), "log.level": c.Log.Level == next.Log.Level, "kubernetes.maxWatches": c.Kubernetes.MaxWatches == next.Kubernetes.MaxWatches,
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

// resourcesByName are the entries of resources without their positions. Several entries
// may have the same resource, in different namespaces.
func (c *Config) resourcesByName() map[string][]Resource {
	all := make(map[string][]Resource)
	for _, r := range c.Resources {
		name := r.name()
		r.Pos = Pos{}
		for _, list := range []*[]string{
			&r.Namespaces, &r.ExcludeNamespaces, &r.ExcludeResources, &r.Keep, &r.Omit, &r.Redact,
		} {
			if len(*list) == 0 {
				*list = nil // an empty list means the same as none
			}
		}
		all[name] = append(all[name], r)
	}
	return all
}

// wildcardsOf are the names of the wildcards that the other config has as well, in the
// order of this one. The first wildcard that matches a resource takes it.
func (c *Config) wildcardsOf(other *Config) (names []string) {
	known := other.resourcesByName()
	for _, r := range c.Resources {
		name := r.name()
		if _, ok := known[name]; ok && r.Wildcard() && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// name is the name of the resource as kubectl has it.
func (r Resource) name() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}

func (c *Config) sinksByName() map[string]Sink {
	all := make(map[string]Sink)
	for _, s := range c.Sinks {
		all[s.Name] = s
	}
	return all
}
