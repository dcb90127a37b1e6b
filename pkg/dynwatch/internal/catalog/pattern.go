package catalog

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/event"
)

// Pattern is an entry: a wildcard, or a resource with a name.
type Pattern struct {
	// Group and Resource are globs (see [path.Match]) or names.
	Group, Version, Resource string
	// Excluded are globs of plural names, or of "<group or core>/<plural name>".
	Excluded []string
	// Namespaced: cluster-scoped resources do not fit.
	Namespaced bool
	// Watches is the number of targets for each resource.
	Watches int
}

// Wild reports whether the entry is a wildcard.
func (p Pattern) Wild() bool { return isGlob(p.Group) || isGlob(p.Resource) }

// isGlob reports whether a group or a plural name is a pattern, as in the config of informd. A backslash
// alone makes none: no resource has such a name, and the entry waits for one.
func isGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

// ID is unique among wildcards and targets: names of targets never have a glob.
func (p Pattern) ID() string { return event.GroupOrCore(p.Group) + "/" + p.Resource }

// Validate returns an error for patterns that are not valid, or need another entry.
func (p Pattern) Validate() error {
	if isGlob(p.Group) && p.Version != "" {
		return fmt.Errorf("version %q: a wildcard has no version, because each group has its own", p.Version)
	}
	if len(p.Excluded) > 0 && !p.Wild() {
		return errors.New("excluded resources need a wildcard")
	}
	for _, pattern := range append([]string{p.Group, p.Resource}, p.Excluded...) {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	return nil
}

// Glob reports whether a pattern, which was checked, matches all of the name.
func Glob(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// Matches reports whether a wildcard matches a resource, excluded or not.
func (p Pattern) Matches(one schema.GroupResource) bool {
	return Glob(p.Group, one.Group) && Glob(p.Resource, one.Resource)
}

// Excludes reports whether a wildcard excludes a resource.
func (p Pattern) Excludes(one schema.GroupResource) bool {
	return slices.ContainsFunc(p.Excluded, func(pattern string) bool {
		if strings.Contains(pattern, "/") {
			return Glob(pattern, NameOf(one))
		}
		return Glob(pattern, one.Resource)
	})
}

// excludesGroup reports whether a wildcard excludes all that it matches in a group.
func (p Pattern) excludesGroup(group string) bool {
	if !isGlob(p.Resource) {
		return p.Excludes(schema.GroupResource{Group: group, Resource: p.Resource})
	}
	return slices.ContainsFunc(p.Excluded, func(pattern string) bool {
		of, resource := path.Split(pattern)
		return resource == "*" && (of == "" || Glob(strings.TrimSuffix(of, "/"), event.GroupOrCore(group)))
	})
}

// fits reports whether the catalog has the resource as the wildcard wants it.
func (p Pattern) fits(c *Catalog, one schema.GroupResource) bool {
	o, ok := c.Find(p.Version, one)
	return ok && o.Watchable && (o.Namespaced || !p.Namespaced)
}

// names are those of the resources that a wildcard matches in the groups that are wanted.
func (p Pattern) names(c *Catalog, wanted func(group string) bool) []string {
	var names []string
	for _, storage := range c.Storages {
		for _, one := range storage {
			if wanted(one.Group) && p.Matches(one) {
				names = append(names, NameOf(one))
			}
		}
	}
	slices.Sort(names)
	return names
}

func anyGroup(string) bool { return true }
