package config

import (
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/internal/config/internal/document"
	"github.com/informd/informd/pkg/event"
)

const globs = "*?["

func isGlob(s string) bool { return strings.ContainsAny(s, globs) }

// Wildcard reports whether the entry stands for whatever its patterns match.
func (r Resource) Wildcard() bool { return isGlob(r.Group) || isGlob(r.Resource) }

// mayBe reports whether the entry can be about a resource; nil is any group, and
// an empty name any resource of it.
func (r Resource) mayBe(group *string, resource string) bool {
	inGroup := group == nil || glob(r.Group, *group)
	named := resource == "" || glob(r.Resource, resource)
	return inGroup && named && (group == nil || resource == "" || !r.excludes(*group, resource))
}

// excludes reports whether the entry, a wildcard, leaves a resource out.
func (r Resource) excludes(group, resource string) bool {
	for _, pattern := range r.ExcludeResources {
		if glob(pattern, resource) || glob(pattern, event.GroupOrCore(group)+"/"+resource) {
			return true
		}
	}
	return false
}

// glob reports whether a pattern matches all of the name.
func glob(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// checkWildcard checks what has a meaning for wildcards only, or none for them.
func (r *checker) checkWildcard(one Resource, at string) {
	if isGlob(one.Group) && one.Version != "" && !r.Bad(at+".version") {
		r.fail(at+".version", "has no meaning with a pattern for groups: remove it, each resource is watched in the version that the server prefers")
	}
	if len(one.ExcludeResources) > 0 && !one.Wildcard() && !r.Bad(at+".group") && !r.Bad(at+".resource") {
		r.fail(at+".excludeResources", `is for entries with a pattern, as in resource: "*": remove it`)
		return
	}
	seen := map[string]bool{}
	for i, pattern := range one.ExcludeResources {
		place := document.Index(at+".excludeResources", i)
		group, resource, slash := strings.Cut(pattern, "/")
		switch {
		case r.Bad(place):
		case seen[pattern]:
			r.fail(place, "%q is in the list twice", pattern)
		case slash && (group == "" || !isPattern(group, isGroup)), !slash && !isPattern(group, isPlural), slash && !isPattern(resource, isPlural):
			r.fail(place, `%s is neither a plural name, as in events, nor a group and one, as in apps/deployments or core/secrets; both may have * and ?`, document.Quote(pattern))
		}
		seen[pattern] = true
	}
}

func isGroup(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 }

func isPlural(s string) bool { return len(validation.IsDNS1035Label(s)) == 0 }

// isPattern reports whether a pattern can be matched by names that are valid. What
// stands in brackets is left to path.Match.
func isPattern(pattern string, valid func(string) bool) bool {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return false
	}
	return strings.Contains(pattern, "[") || valid(strings.NewReplacer("*", "a", "?", "a").Replace(pattern))
}
