package config

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// ClusterWide reports whether the entry is one watch of the whole cluster, in contrast
// to one for each of its namespaces.
func (r Resource) ClusterWide() bool {
	return r.Scope == ScopeCluster || len(r.Namespaces) == 0 || r.Patterned()
}

// Patterned reports whether it takes more than exact names to say which namespaces
// are meant.
func (r Resource) Patterned() bool {
	return len(r.ExcludeNamespaces) > 0 || r.NamespaceSelector != "" || slices.ContainsFunc(r.Namespaces, IsGlob)
}

// ExcludesAll reports whether no namespace can be left.
func (r Resource) ExcludesAll() bool {
	excluded := func(namespace string) bool {
		return slices.ContainsFunc(r.ExcludeNamespaces, func(pattern string) bool {
			return pattern == "*" || pattern == namespace || !IsGlob(namespace) && glob(pattern, namespace)
		})
	}
	if len(r.Namespaces) == 0 {
		return excluded("*")
	}
	return !slices.ContainsFunc(r.Namespaces, func(namespace string) bool { return !excluded(namespace) })
}

// ValidGlob reports whether a pattern can match names of namespaces.
func ValidGlob(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && namespaceGlob.MatchString(pattern)
}

// Reaches reports whether an entry may cover what a name or glob means.
func (r Resource) Reaches(namespace string) bool {
	meets := func(pattern string) bool {
		switch {
		case !IsGlob(namespace):
			return glob(pattern, namespace)
		case !IsGlob(pattern):
			return glob(namespace, pattern)
		default:
			return mayMeet(pattern, namespace)
		}
	}
	if !IsGlob(namespace) && slices.ContainsFunc(r.ExcludeNamespaces, meets) {
		return false
	}
	return len(r.Namespaces) == 0 || slices.ContainsFunc(r.Namespaces, meets)
}

// mayMeet reports whether two globs may match the same name: how they begin, before
// the first sign, must agree.
func mayMeet(a, b string) bool {
	beginning := func(glob string) string { return glob[:strings.IndexAny(glob, globs)] }
	x, y := beginning(a), beginning(b)
	return strings.HasPrefix(x, y) || strings.HasPrefix(y, x)
}

// namespaceGlob is what a pattern for namespaces may be made of.
var namespaceGlob = regexp.MustCompile(`^[a-z0-9*?\[\]^-]+$`)

// Unique sorts words and drops repeated ones. It changes the slice.
func Unique(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}
