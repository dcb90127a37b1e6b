package dynwatch

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
)

// Scope says how the namespaces of a resource are watched.
type Scope string

// The scopes.
const (
	// ScopeAuto is ScopeNamespaced for exact names, else ScopeCluster.
	ScopeAuto Scope = "auto"
	// ScopeCluster: one watch of all namespaces, whose events are filtered here.
	ScopeCluster Scope = "cluster"
	// ScopeNamespaced: one watch, and one target, for each namespace.
	ScopeNamespaced Scope = "namespaced"
)

// IsGlob reports whether a namespace is a pattern and not an exact name.
func IsGlob(namespace string) bool { return strings.ContainsAny(namespace, `*?[\`) }

// clusterWide reports whether one target watches all namespaces.
func (r Resource) clusterWide() bool {
	return r.Scope == ScopeCluster || len(r.Namespaces) == 0 || r.patterned()
}

// patterned reports whether it takes more than exact names to say which namespaces
// are meant.
func (r Resource) patterned() bool {
	return len(r.ExcludeNamespaces) > 0 || r.NamespaceSelector != "" || slices.ContainsFunc(r.Namespaces, IsGlob)
}

func (r Resource) validateNamespaces() error {
	for _, name := range slices.Concat(r.Namespaces, r.ExcludeNamespaces) {
		_, err := path.Match(name, "")
		switch {
		case name == "":
			return errors.New("an empty namespace name")
		case err != nil, strings.Contains(name, ","):
			return fmt.Errorf("%q is neither a namespace nor a glob", name)
		}
	}
	if _, err := labels.Parse(r.NamespaceSelector); err != nil {
		return fmt.Errorf("namespace selector: %w", err)
	}
	switch {
	case !slices.Contains([]Scope{"", ScopeAuto, ScopeCluster, ScopeNamespaced}, r.Scope):
		return fmt.Errorf("scope %q: want %q, %q or %q", r.Scope, ScopeAuto, ScopeCluster, ScopeNamespaced)
	case r.Scope == ScopeNamespaced && (len(r.Namespaces) == 0 || r.patterned()):
		return fmt.Errorf("scope %q needs exact namespace names, and no pattern or selector", r.Scope)
	}
	return nil
}

// joined makes one comparable text of names.
func joined(names []string) string {
	return strings.Join(slices.Sorted(slices.Values(names)), ",")
}

// filters reports whether the watch brings namespaces that are not covered.
func (s spec) filters() bool {
	return s.namespaces != "" || s.excludeNamespaces != "" || s.namespaceSelector != ""
}

// namespaceKeys names what a cluster-scoped resource cannot have.
func (s spec) namespaceKeys() string {
	var keys []string
	if s.namespace != "" || s.namespaces != "" {
		keys = append(keys, "namespaces")
	}
	if s.excludeNamespaces != "" {
		keys = append(keys, "excludeNamespaces")
	}
	if s.namespaceSelector != "" {
		keys = append(keys, "namespaceSelector")
	}
	if last := len(keys) - 1; last > 0 {
		keys = []string{strings.Join(keys[:last], ", "), keys[last]}
	}
	return strings.Join(keys, " and ")
}

// filter says which namespaces a target covers. Its methods may be called
// concurrently, and on nil, which covers all.
type filter struct {
	names, excluded []string
	// labelled are those that the target covers by label, nil if labels do not count
	// for it. The target replaces it as a whole.
	labelled atomic.Pointer[labelled]
}

// labelled are the namespaces that are covered by label, and those that no longer
// are but of which the watch has yet to bring what came before that.
type labelled struct {
	covered nameSet
	leaving map[string]departure
}

func newFilter(s spec) *filter {
	if !s.filters() {
		return nil
	}
	f := new(filter)
	if s.namespaces != "" {
		f.names = strings.Split(s.namespaces, ",")
	}
	if s.excludeNamespaces != "" {
		f.excluded = strings.Split(s.excludeNamespaces, ",")
	}
	if s.namespaceSelector != "" {
		f.labelled.Store(&labelled{})
	}
	return f
}

// named reports whether a namespace is meant, as far as its name tells.
func (f *filter) named(namespace string) bool {
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, namespace)
		return ok && err == nil // the patterns were checked
	}
	return (len(f.names) == 0 || slices.ContainsFunc(f.names, matches)) && !slices.ContainsFunc(f.excluded, matches)
}

// covers reports whether the index should hold the objects of a namespace.
func (f *filter) covers(namespace string) bool {
	if f == nil {
		return true
	}
	l := f.labelled.Load()
	if l == nil {
		return f.named(namespace)
	}
	return l.covered.has(namespace)
}

// wants reports whether frames of a namespace are to be told: it is covered, or was
// until just now.
func (f *filter) wants(namespace string) bool {
	if f.covers(namespace) {
		return true
	}
	l := f.labelled.Load()
	if l == nil {
		return false
	}
	_, ok := l.leaving[namespace]
	return ok
}
