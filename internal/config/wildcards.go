package config

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/pkg/event"
)

// globs are the signs of a pattern. A backslash alone, which quotes a sign, makes none: such a text is
// refused as a name. (dynwatch takes it for a pattern, because nothing there refuses it.)
const globs = "*?["

// IsGlob reports whether a name is a pattern.
func IsGlob(s string) bool { return strings.ContainsAny(s, globs) }

// Wildcard reports whether the entry stands for whatever its patterns match.
func (r Resource) Wildcard() bool { return IsGlob(r.Group) || IsGlob(r.Resource) }

// MayBe reports whether the entry can be about a resource; nil is any group, and
// an empty name any resource of it.
func (r Resource) MayBe(group *string, resource string) bool {
	inGroup := group == nil || glob(r.Group, *group)
	named := resource == "" || glob(r.Resource, resource)
	return inGroup && named && (group == nil || resource == "" || !r.excludes(*group, resource))
}

// excludes reports whether the entry, a wildcard, leaves a resource out.
func (r Resource) excludes(group, resource string) bool {
	return slices.ContainsFunc(r.ExcludeResources, func(pattern string) bool {
		return glob(pattern, resource) || glob(pattern, event.GroupOrCore(group)+"/"+resource)
	})
}

// glob reports whether a pattern matches all of the name.
func glob(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// IsGroup reports whether a name is valid as an API group.
func IsGroup(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 }

// IsPlural reports whether a name is valid as the plural name of a resource.
func IsPlural(s string) bool { return len(validation.IsDNS1035Label(s)) == 0 }

// IsPattern reports whether a pattern can be matched by names that are valid. Only
// path.Match checks text in brackets.
func IsPattern(pattern string, valid func(string) bool) bool {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return false
	}
	return strings.Contains(pattern, "[") || valid(strings.NewReplacer("*", "a", "?", "a").Replace(pattern))
}
