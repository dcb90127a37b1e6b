package catalog

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Set is what is wanted: wildcards, and resources that have separate entries.
type Set struct {
	Named map[schema.GroupResource]bool
	// Patterns are the wildcards in their order.
	Patterns []Pattern
	// Free is how many watches the wildcards may have together.
	Free int
}

// Has reports whether a wildcard is in the set.
func (s *Set) Has(id string) bool {
	return slices.ContainsFunc(s.Patterns, func(p Pattern) bool { return p.ID() == id })
}

// Choice is a resource, and the place of the pattern that has it.
type Choice struct {
	Resource schema.GroupResource
	Pattern  int
}

// Owner is the wildcard that a resource belongs to by its name alone.
func (s *Set) Owner(one schema.GroupResource) (Choice, bool) {
	i := slices.IndexFunc(s.Patterns, func(p Pattern) bool { return p.Matches(one) && !p.Excludes(one) })
	return Choice{one, i}, i >= 0 && !s.Named[one]
}

// Choose expands the wildcards. Of the names of one storage at most one is chosen,
// and none if one of them has a separate entry or is excluded.
func (s *Set) Choose(c *Catalog) []Choice {
	var all []Choice
	for _, names := range c.Storages {
		if slices.ContainsFunc(names, func(one schema.GroupResource) bool { return s.Named[one] }) {
			continue
		}
		for place, p := range s.Patterns {
			i := slices.IndexFunc(names, func(one schema.GroupResource) bool { return p.Matches(one) && p.fits(c, one) })
			if i >= 0 && !slices.ContainsFunc(names, p.Excludes) {
				all = append(all, Choice{names[i], place})
				break
			}
		}
	}
	return all
}

// Chosen is a resource that gets targets.
type Chosen struct {
	Choice
	// Later: the resource came after the first expansion.
	Later bool
	// Found is what the catalog says about the resource, nil if it does not.
	Found *Resolved
}

// Expansion is what the wildcards stand for, and the notes that the log must have first.
type Expansion struct {
	Chosen []Chosen
	Notes  map[string]*Note // by id of the wildcard
	// Beyond are the names of the resources that are above the limit of watches, by id
	// of the wildcard.
	Beyond map[string][]string
}

// Plan expands the wildcards. A resource that was watched and is not served any more
// stays until every target of it is gone, which the targets find out.
func (s *Set) Plan(c *Catalog, notes map[string]*Note, gone func(Choice) bool) *Expansion {
	e := &Expansion{Notes: make(map[string]*Note)}
	var chosen []Choice
	chosen, e.Beyond = s.admit(append(s.Choose(c), s.leaving(c, notes, gone)...), notes)
	for _, p := range s.Patterns {
		e.Notes[p.ID()] = notes[p.ID()].looked(p, c)
	}
	for _, one := range chosen {
		p := s.Patterns[one.Pattern]
		n := e.Notes[p.ID()]
		n.Running = append(n.Running, NameOf(one.Resource))
		e.Chosen = append(e.Chosen, Chosen{one, !n.existed(one.Resource), c.Resolve(p.Version, one.Resource)})
	}
	for _, n := range e.Notes {
		slices.Sort(n.Running)
		// A resource that goes and comes back is a new one.
		n.First = slices.DeleteFunc(n.First, func(name string) bool {
			_, served := c.Find(AnyVersion, ParseName(name))
			return !served && !slices.Contains(n.Running, name)
		})
	}
	return e
}

// leaving are resources that were watched, are not in the catalog and still have
// deletions to announce.
func (s *Set) leaving(c *Catalog, notes map[string]*Note, gone func(Choice) bool) []Choice {
	var all []Choice
	for _, p := range s.Patterns {
		n := notes[p.ID()]
		if n == nil {
			continue
		}
		for _, name := range n.Running {
			owner, ok := s.Owner(ParseName(name))
			if !ok || slices.Contains(all, owner) {
				continue
			}
			if _, served := c.Find(s.Patterns[owner.Pattern].Version, owner.Resource); !served && !gone(owner) {
				all = append(all, owner)
			}
		}
	}
	return all
}

// admit returns the choices that fit below the limit of watches, and the names of the
// others by wildcard. Resources that were watched before come first, then the names in
// their order: every start makes the same choice.
func (s *Set) admit(chosen []Choice, notes map[string]*Note) (admitted []Choice, beyond map[string][]string) {
	watched := make(map[string]bool)
	for _, n := range notes {
		if n == nil {
			continue
		}
		for _, name := range n.Running {
			watched[name] = true
		}
	}
	slices.SortStableFunc(chosen, func(a, b Choice) int {
		one, other := NameOf(a.Resource), NameOf(b.Resource)
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
	left := s.Free
	for _, c := range chosen {
		p := s.Patterns[c.Pattern]
		if p.Watches <= left {
			left -= p.Watches
			admitted = append(admitted, c)
			continue
		}
		beyond[p.ID()] = append(beyond[p.ID()], NameOf(c.Resource))
	}
	for _, names := range beyond {
		slices.Sort(names)
	}
	return admitted, beyond
}
