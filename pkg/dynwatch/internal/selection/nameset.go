package selection

import (
	"iter"
	"maps"
)

// maxOver bounds the changes that a nameSet keeps beside its base.
const maxOver = 256

// nameSet is an immutable set of names: with and without return another one. It
// shares its base with the sets that it was made from, so that 300 targets that cover
// the same 10,000 namespaces have these once. The zero value is empty.
type nameSet struct {
	base map[string]struct{}
	// over are the changes to base: true for a name that is in the set, false for one
	// of base that is not.
	over map[string]bool
	n    int
	sum  uint64
}

func nameSetOf(names iter.Seq[string]) nameSet {
	s := nameSet{base: make(map[string]struct{})}
	for name := range names {
		if _, twice := s.base[name]; !twice {
			s.base[name] = struct{}{}
			s.sum += hashOfName(name)
		}
	}
	s.n = len(s.base)
	return s
}

// hashOfName is part of a mark: it is the same in every process.
func hashOfName(name string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * prime
	}
	// Sums of FNV hashes of similar names collide: spread the bits first (SplitMix64).
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// has reports whether a name is in the set.
func (s *nameSet) has(name string) bool {
	if in, changed := s.over[name]; changed {
		return in
	}
	_, ok := s.base[name]
	return ok
}

func (s *nameSet) len() int { return s.n }

// hash tells sets apart. Sets with the same names have the same hash.
func (s *nameSet) hash() uint64 { return s.sum }

// equals reports whether two sets have the same hash and size.
func (s *nameSet) equals(other *nameSet) bool { return s.n == other.n && s.sum == other.sum }

// all yields the names in no order.
func (s *nameSet) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, in := range s.over {
			if in && !yield(name) {
				return
			}
		}
		for name := range s.base {
			if _, changed := s.over[name]; !changed && !yield(name) {
				return
			}
		}
	}
}

// with returns the set and a name.
func (s *nameSet) with(name string) nameSet {
	if s.has(name) {
		return *s
	}
	next := s.changed(name, true)
	next.n, next.sum = s.n+1, s.sum+hashOfName(name)
	return next.settled()
}

// without returns the set less a name.
func (s *nameSet) without(name string) nameSet {
	if !s.has(name) {
		return *s
	}
	next := s.changed(name, false)
	next.n, next.sum = s.n-1, s.sum-hashOfName(name)
	return next.settled()
}

// changed returns the set with another change beside the base.
func (s *nameSet) changed(name string, in bool) nameSet {
	next := *s
	next.over = make(map[string]bool, len(s.over)+1)
	maps.Copy(next.over, s.over)
	if _, ofBase := s.base[name]; ofBase == in {
		delete(next.over, name)
	} else {
		next.over[name] = in
	}
	return next
}

// settled returns the set with a base of its own if there are many changes.
func (s nameSet) settled() nameSet {
	if len(s.over) <= maxOver {
		return s
	}
	return nameSetOf(s.all())
}
