package dynwatch

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
)

// DefaultMaxWatches is the default of [Options.MaxWatches]. Platforms with many
// CustomResourceDefinitions, such as Crossplane with its providers, have 1,000 to 2,000.
const DefaultMaxWatches = 10_000

// wantedSet is what a Manager is to converge to.
type wantedSet struct {
	catalog.Set
	explicit map[string]target.Spec
	// templates are the specs that each resource of a wildcard gets, in the order of Patterns.
	templates [][]target.Spec
	// maxWatches is the limit of watches, see [Options.MaxWatches].
	maxWatches int
}

func newWantedSet(wanted []Resource, maxWatches int) (wantedSet, error) {
	explicit, err := specs(wanted)
	w := wantedSet{explicit: explicit, maxWatches: cmp.Or(maxWatches, DefaultMaxWatches)}
	w.Free, w.Named = w.maxWatches-len(explicit), make(map[schema.GroupResource]bool)
	for _, s := range explicit {
		w.Named[s.GroupResource()] = true
	}
	for _, r := range wanted {
		if p := r.pattern(); p.Wild() {
			w.Patterns, w.templates = append(w.Patterns, p), append(w.templates, r.specs())
		}
	}
	return w, err
}

// pattern is what decides which resources the entry stands for.
func (r Resource) pattern() catalog.Pattern {
	watches := 1
	if !r.clusterWide() {
		watches = len(r.Namespaces)
	}
	return catalog.Pattern{
		Group: r.Group, Version: r.Version, Resource: r.Resource, Excluded: r.ExcludeResources,
		Namespaced: len(r.Namespaces) > 0 || r.patterned(), Watches: watches,
	}
}

// as returns the specs of a resource of a wildcard.
func (w *wantedSet) as(one catalog.Choice) []target.Spec {
	all := slices.Clone(w.templates[one.Pattern])
	for i := range all {
		all[i].Group, all[i].Resource = one.Resource.Group, one.Resource.Resource
	}
	return all
}

// expansion is what the targets are to be.
type expansion struct {
	targets map[string]target.Spec
	// later are the targets whose resources came after the first expansion.
	later map[string]bool
	// found is what the catalog says about the resources of targets.
	found map[string]*catalog.Resolved
}

// expanded returns the targets of the explicit entries and of the chosen resources.
func (w *wantedSet) expanded(e *catalog.Expansion) *expansion {
	p := &expansion{targets: maps.Clone(w.explicit), later: make(map[string]bool), found: make(map[string]*catalog.Resolved)}
	for _, one := range e.Chosen {
		for _, s := range w.as(one.Choice) {
			name := s.Name()
			p.targets[name], p.later[name], p.found[name] = s, one.Later, one.Found
		}
	}
	return p
}
