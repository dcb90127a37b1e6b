package dynwatch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/event"
)

// A wildcard is made into targets by comparing it with the catalog. What follows has
// no state and asks nobody; expand.go does.

const globs = "*?["

// wild reports whether the resource is a wildcard.
func (r Resource) wild() bool {
	return strings.ContainsAny(r.Group, globs) || strings.ContainsAny(r.Resource, globs)
}

// id tells a wildcard from others; targets' names never have a glob.
func (r Resource) id() string { return event.GroupOrCore(r.Group) + "/" + r.Resource }

func (r Resource) validatePatterns() error {
	if strings.ContainsAny(r.Group, globs) && r.Version != "" {
		return fmt.Errorf("version %q: a wildcard has no version, because each group has its own", r.Version)
	}
	if len(r.ExcludeResources) > 0 && !r.wild() {
		return errors.New("excluded resources need a wildcard")
	}
	for _, pattern := range append([]string{r.Group, r.Resource}, r.ExcludeResources...) {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	return nil
}

// glob reports whether a pattern, which was checked, matches all of the name.
func glob(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// matches reports whether a wildcard stands for a resource, what it excludes aside.
func (r Resource) matches(of schema.GroupResource) bool {
	return glob(r.Group, of.Group) && glob(r.Resource, of.Resource)
}

func (r Resource) excludes(one schema.GroupResource) bool {
	return slices.ContainsFunc(r.ExcludeResources, func(pattern string) bool {
		if strings.Contains(pattern, "/") {
			return glob(pattern, event.GroupOrCore(one.Group)+"/"+one.Resource)
		}
		return glob(pattern, one.Resource)
	})
}

// fits reports whether the catalog has the resource as the wildcard wants it.
func (r Resource) fits(c *catalog.Catalog, one schema.GroupResource) bool {
	o, ok := c.Find(r.Version, one)
	return ok && o.Watchable && (o.Namespaced || len(r.Namespaces) == 0 && !r.patterned())
}

// wantedSet is what a Manager is to converge to.
type wantedSet struct {
	explicit  map[string]spec
	wildcards []wildcard // in their order
	// maxWatches is the limit of watches, see [Options.MaxWatches].
	maxWatches int
}

func newWantedSet(wanted []Resource, maxWatches int) (wantedSet, error) {
	explicit, err := specs(wanted)
	w := wantedSet{explicit: explicit, maxWatches: cmp.Or(maxWatches, DefaultMaxWatches)}
	for _, r := range wanted {
		if r.wild() {
			w.wildcards = append(w.wildcards, newWildcard(r))
		}
	}
	return w, err
}

func (w *wantedSet) hasWildcard(id string) bool {
	return slices.ContainsFunc(w.wildcards, func(r wildcard) bool { return r.id() == id })
}

// named reports whether the resource has an entry of its own.
func (w *wantedSet) named(one schema.GroupResource) bool {
	for _, s := range w.explicit {
		if s.group == one.Group && s.resource == one.Resource {
			return true
		}
	}
	return false
}

// owner is the wildcard that a resource belongs to if nothing is known of it but the
// name.
func (w *wantedSet) owner(one schema.GroupResource) (wildcard, bool) {
	i := slices.IndexFunc(w.wildcards, func(r wildcard) bool { return r.matches(one) && !r.excludes(one) })
	if i < 0 || w.named(one) {
		return wildcard{}, false
	}
	return w.wildcards[i], true
}

// choice is a resource and the wildcard that it belongs to.
type choice struct {
	resource schema.GroupResource
	wildcard wildcard
}

// choose expands the wildcards. Of the names of one storage at most one is chosen,
// and none if one of them has an entry of its own or is excluded.
func (w *wantedSet) choose(c *catalog.Catalog) []choice {
	var all []choice
	for _, names := range c.Storages {
		if slices.ContainsFunc(names, w.named) {
			continue
		}
		for _, r := range w.wildcards {
			i := slices.IndexFunc(names, func(one schema.GroupResource) bool { return r.matches(one) && r.fits(c, one) })
			if i >= 0 && !slices.ContainsFunc(names, r.excludes) {
				all = append(all, choice{names[i], r})
				break
			}
		}
	}
	return all
}

// note is what the log keeps of a wildcard, in the place of a target's mark.
type note struct {
	// First are the resources that existed when it was first looked, whether they
	// are watched or not; in groups that are Unknown nothing could be found out yet.
	First   []string `json:"first"`
	Unknown []string `json:"unknown,omitempty"`
	// Running are the resources whose targets it has made. One that is gone when
	// informd comes back has deletions to announce.
	Running []string `json:"running"`
}

// looked brings a note up to date with the catalog, and begins one that is nil.
func (n *note) looked(r Resource, c *catalog.Catalog) *note {
	stale := c.Stale()
	next := &note{}
	if n == nil {
		next.First = r.named(c, func(string) bool { return true })
		next.Unknown = slices.DeleteFunc(slices.Clone(stale), func(group string) bool { return !glob(r.Group, group) })
		return next
	}
	next.First = slices.Clone(n.First)
	for _, group := range n.Unknown {
		if slices.Contains(stale, group) {
			next.Unknown = append(next.Unknown, group)
			continue
		}
		next.First = append(next.First, r.named(c, func(name string) bool { return name == group })...)
	}
	slices.Sort(next.First)
	next.First = slices.Compact(next.First)
	return next
}

// named are the names of what a wildcard matches in the groups that are wanted.
func (r Resource) named(c *catalog.Catalog, wanted func(group string) bool) []string {
	var names []string
	for _, storage := range c.Storages {
		for _, one := range storage {
			if wanted(one.Group) && r.matches(one) {
				names = append(names, catalog.NameOf(one))
			}
		}
	}
	slices.Sort(names)
	return names
}

// matched reports whether a wildcard matches anything, what it excludes included.
func (r Resource) matched(c *catalog.Catalog) bool {
	return len(r.named(c, func(string) bool { return true })) > 0
}

// existed reports whether a resource was there when it was first looked.
func (n *note) existed(one schema.GroupResource) bool {
	_, first := slices.BinarySearch(n.First, catalog.NameOf(one))
	return first || slices.Contains(n.Unknown, one.Group)
}

// expansion is what the targets are to be, and what the log is to know first.
type expansion struct {
	targets map[string]spec
	// later are the targets whose resources came after it was first looked.
	later map[string]bool
	// found is what the catalog says about the resources of targets.
	found map[string]*catalog.Resolved
	notes map[string]*note // by id of the wildcard
	// beyond are the names of the resources that are above the limit of watches, by id
	// of the wildcard.
	beyond map[string][]string
}

// plan expands the wildcards. A resource that was watched and is not served any more
// stays until every target of it is gone, which the targets find out by themselves.
func (w *wantedSet) plan(c *catalog.Catalog, notes map[string]*note, gone func(target string) bool) *expansion {
	p := &expansion{targets: maps.Clone(w.explicit), later: make(map[string]bool), found: make(map[string]*catalog.Resolved), notes: make(map[string]*note)}
	chosen, beyond := w.admit(append(w.choose(c), w.leaving(c, notes, gone)...), notes)
	p.beyond = beyond
	for _, r := range w.wildcards {
		p.notes[r.id()] = notes[r.id()].looked(r.Resource, c)
	}
	for _, one := range chosen {
		n := p.notes[one.wildcard.id()]
		n.Running = append(n.Running, catalog.NameOf(one.resource))
		found := c.Resolve(one.wildcard.Version, one.resource)
		for _, s := range one.wildcard.as(one.resource) {
			p.targets[s.name()] = s
			p.later[s.name()] = !n.existed(one.resource)
			p.found[s.name()] = found
		}
	}
	for _, n := range p.notes {
		slices.Sort(n.Running)
		// What goes and comes back is something new.
		n.First = slices.DeleteFunc(n.First, func(name string) bool {
			one := catalog.ParseName(name)
			_, served := c.Find(catalog.AnyVersion, one)
			return !served && !slices.Contains(n.Running, name)
		})
	}
	return p
}

// leaving are resources that were watched, are not in the catalog and still have
// something to tell.
func (w *wantedSet) leaving(c *catalog.Catalog, notes map[string]*note, gone func(target string) bool) []choice {
	var all []choice
	for _, r := range w.wildcards {
		if notes[r.id()] == nil {
			continue
		}
		for _, name := range notes[r.id()].Running {
			one := catalog.ParseName(name)
			owner, ok := w.owner(one)
			if _, served := c.Find(owner.Version, one); !ok || served || slices.ContainsFunc(all, func(c choice) bool { return c.resource == one }) {
				continue
			}
			if slices.ContainsFunc(owner.as(one), func(s spec) bool { return !gone(s.name()) }) {
				all = append(all, choice{one, owner})
			}
		}
	}
	return all
}
