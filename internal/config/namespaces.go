package config

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/internal/config/internal/document"
)

// checkCoverage checks which namespaces an entry covers.
func (r *checker) checkCoverage(one Resource, path string) {
	r.checkNamespaces(one.Namespaces, path+".namespaces")
	r.checkNamespaces(one.ExcludeNamespaces, path+".excludeNamespaces")
	if r.Failed[path+".namespaces"] || r.Failed[path+".excludeNamespaces"] {
		return
	}
	if len(one.ExcludeNamespaces) > 0 && one.excludesAll() {
		r.fail(path+".excludeNamespaces", "excludes all of namespaces: remove the names that are in both")
	}
	if one.Scope == ScopeNamespaced && (len(one.Namespaces) == 0 || one.patterned()) {
		r.fail(path+".scope", "namespaced is one watch for each namespace: it needs namespaces with exact names, without excludeNamespaces and namespaceSelector")
	}
}

// ClusterWide reports whether the entry is one watch of the whole cluster, in contrast
// to one for each of its namespaces.
func (r Resource) ClusterWide() bool {
	return r.Scope == ScopeCluster || len(r.Namespaces) == 0 || r.patterned()
}

// patterned reports whether it takes more than exact names to say which namespaces
// are meant.
func (r Resource) patterned() bool {
	return len(r.ExcludeNamespaces) > 0 || r.NamespaceSelector != "" || slices.ContainsFunc(r.Namespaces, isGlob)
}

// excludesAll reports whether no namespace can be left.
func (r Resource) excludesAll() bool {
	excluded := func(namespace string) bool {
		return slices.ContainsFunc(r.ExcludeNamespaces, func(pattern string) bool {
			return pattern == "*" || pattern == namespace || !isGlob(namespace) && matches(pattern, namespace)
		})
	}
	if len(r.Namespaces) == 0 {
		return excluded("*")
	}
	return !slices.ContainsFunc(r.Namespaces, func(namespace string) bool { return !excluded(namespace) })
}

// matches is path.Match for what checkNamespaces has passed.
func matches(glob, namespace string) bool {
	ok, err := path.Match(glob, namespace)
	return ok && err == nil
}

// namespaceGlob is what a pattern for namespaces may be made of.
const namespaceGlob = `^[a-z0-9*?\[\]^-]+$`

func (r *checker) checkNamespaces(namespaces []string, path string) {
	seen := map[string]bool{}
	for i, namespace := range namespaces {
		at := document.Index(path, i)
		switch {
		case r.Bad(at):
		case isGlob(namespace) && !validGlob(namespace):
			r.fail(at, "%s is not a pattern for namespaces: lower-case letters, digits and '-', and * for any of them, ? for one, [abc] for one of these", document.Quote(namespace))
		case !isGlob(namespace) && len(validation.IsDNS1123Label(namespace)) > 0:
			r.fail(at, "%s is not a namespace: up to 63 lower-case letters, digits and '-', with a letter or digit at both ends", document.Quote(namespace))
		case seen[namespace]:
			r.fail(at, "%q is in the list twice", namespace)
		}
		seen[namespace] = true
	}
}

func validGlob(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && regexp.MustCompile(namespaceGlob).MatchString(pattern)
}

// checkReaches refuses namespaces of a match that no entry of resources covers.
func (r *checker) checkReaches(namespaces []string, path string, meant []Resource) {
	if r.Failed[path] {
		return
	}
	for _, one := range meant {
		if one.Pos == (Pos{}) || len(one.Namespaces) == 0 && len(one.ExcludeNamespaces) == 0 {
			return
		}
	}
	for i, namespace := range namespaces {
		if r.Bad(document.Index(path, i)) || slices.ContainsFunc(meant, func(one Resource) bool { return one.reaches(namespace) }) {
			continue
		}
		r.fail(document.Index(path, i), "no entry of resources covers %s %s", document.Quote(namespace), covered(meant))
	}
}

// covered says what entries cover.
func covered(entries []Resource) string {
	var names, excluded []string
	for _, one := range entries {
		names = append(names, one.Namespaces...)
		excluded = append(excluded, one.ExcludeNamespaces...)
	}
	if len(names) == 0 {
		names = []string{"*"}
	}
	text := "(they have " + strings.Join(unique(names), ", ")
	if len(excluded) > 0 {
		text += " without " + strings.Join(unique(excluded), ", ")
	}
	return text + ")"
}

// reaches reports whether an entry may cover what a name or glob means.
func (r Resource) reaches(namespace string) bool {
	meets := func(pattern string) bool {
		switch {
		case !isGlob(namespace):
			return matches(pattern, namespace)
		case !isGlob(pattern):
			return matches(namespace, pattern)
		default:
			return mayMeet(pattern, namespace)
		}
	}
	if !isGlob(namespace) && slices.ContainsFunc(r.ExcludeNamespaces, meets) {
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
