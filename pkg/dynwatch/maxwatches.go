package dynwatch

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
)

// DefaultMaxWatches is the default of [Options.MaxWatches]. Platforms with many
// CustomResourceDefinitions, such as Crossplane with its providers, have 1,000 to 2,000.
const DefaultMaxWatches = 10_000

// maxNamed bounds how many resources beyond the limit a reason or a log line names.
const maxNamed = 10

// wildcard is an entry with a pattern, and the specs that each of its resources gets.
type wildcard struct {
	Resource
	template []spec
}

func newWildcard(r Resource) wildcard { return wildcard{r, r.specs()} }

// as returns the specs of one resource of the wildcard.
func (r wildcard) as(one schema.GroupResource) []spec {
	all := slices.Clone(r.template)
	for i := range all {
		all[i].group, all[i].resource = one.Group, one.Resource
	}
	return all
}

// admit returns the choices that fit below the limit of watches, and the names of the
// others by wildcard. Explicit entries always fit. Resources that were watched before
// come first, then the names in their order: every start makes the same choice.
func (w *wantedSet) admit(chosen []choice, notes map[string]*note) (admitted []choice, beyond map[string][]string) {
	watched := make(map[string]bool)
	for _, n := range notes {
		if n == nil {
			continue
		}
		for _, name := range n.Running {
			watched[name] = true
		}
	}
	slices.SortStableFunc(chosen, func(a, b choice) int {
		one, other := catalog.NameOf(a.resource), catalog.NameOf(b.resource)
		switch {
		case watched[one] == watched[other]:
			return strings.Compare(one, other)
		case watched[one]:
			return -1
		default:
			return 1
		}
	})
	beyond = make(map[string][]string)
	left := w.maxWatches - len(w.explicit)
	for _, c := range chosen {
		if n := len(c.wildcard.template); n <= left {
			left -= n
			admitted = append(admitted, c)
			continue
		}
		id := c.wildcard.id()
		beyond[id] = append(beyond[id], catalog.NameOf(c.resource))
	}
	for _, names := range beyond {
		slices.Sort(names)
	}
	return admitted, beyond
}

// aboveLimit returns why a wildcard does not watch some resources, "" if it watches all.
func (e *expansion) aboveLimit(id string, maxWatches int) string {
	names := e.beyond[id]
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%d matching resources are not watched, because the limit is %d watches: %s; exclude resources, or raise kubernetes.maxWatches",
		len(names), maxWatches, someOf(names))
}

// someOf lists the first names and the number of the others.
func someOf(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// SetMaxWatches replaces [Options.MaxWatches] from the next [Manager.Apply] on; 0 is
// [DefaultMaxWatches].
func (m *Manager) SetMaxWatches(most int) {
	m.converging.Lock()
	defer m.converging.Unlock()
	m.options.MaxWatches = most
}
