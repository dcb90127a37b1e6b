package dynwatch

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

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

// isGlob reports whether a namespace is a pattern and not an exact name. A backslash, which quotes a
// sign for [path.Match], makes it one: as an exact name, the text would name no namespace.
func isGlob(namespace string) bool { return strings.ContainsAny(namespace, `*?[\`) }

// clusterWide reports whether one target watches all namespaces.
func (r Resource) clusterWide() bool {
	return r.Scope == ScopeCluster || len(r.Namespaces) == 0 || r.patterned()
}

// patterned reports whether it takes more than exact names to say which namespaces
// are meant.
func (r Resource) patterned() bool {
	return len(r.ExcludeNamespaces) > 0 || r.NamespaceSelector != "" || slices.ContainsFunc(r.Namespaces, isGlob)
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
