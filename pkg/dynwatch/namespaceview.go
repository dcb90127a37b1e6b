package dynwatch

import (
	"maps"

	"k8s.io/apimachinery/pkg/labels"
)

// maxTurns bounds how many changes of a view are remembered. A target that is further
// behind compares all names.
const maxTurns = 1024

// namespaceView is the set of Namespaces that a selector and a filter by name match. All
// targets with the same selector and the same names share one. A Namespace event changes
// the set by one name, and a target asks for the names that changed since it last asked.
type namespaceView struct {
	selector labels.Selector
	named    func(string) bool
	users    map[chan struct{}]struct{}
	matching nameSet
	// turns are the names that came in or went out, the last of them number seq.
	turns []string
	seq   uint64
}

// viewKey is what targets with the same view have in common.
type viewKey struct{ selector, names, excluded string }

func (s spec) viewKey() viewKey {
	return viewKey{s.namespaceSelector, s.namespaces, s.excludeNamespaces}
}

// matches reports whether a namespace is in the view.
func (v *namespaceView) matches(name string, one *namespace) bool {
	return one != nil && v.selector.Matches(one.labels) && v.named(name)
}

// update brings the view in line with one namespace, nil for none, and reports whether
// that changes it.
func (v *namespaceView) update(name string, one *namespace) (turned bool) {
	is := v.matches(name, one)
	if is == v.matching.has(name) {
		return false
	}
	if is {
		v.matching = v.matching.with(name)
	} else {
		v.matching = v.matching.without(name)
	}
	v.turn(name)
	return true
}

func (v *namespaceView) turn(name string) {
	v.seq++
	if len(v.turns) >= maxTurns {
		v.turns = append([]string(nil), v.turns[maxTurns/2:]...)
	}
	v.turns = append(v.turns, name)
}

// relist brings the view in line with all namespaces.
func (v *namespaceView) relist(known map[string]*namespace) {
	now := nameSetOf(func(yield func(string) bool) {
		for name, one := range known {
			if v.matches(name, one) && !yield(name) {
				return
			}
		}
	})
	for name := range now.all() {
		if !v.matching.has(name) {
			v.turn(name)
		}
	}
	for name := range v.matching.all() {
		if !now.has(name) {
			v.turn(name)
		}
	}
	if !now.equals(&v.matching) {
		v.matching = now
	}
	if v.seq == 0 {
		v.seq = 1 // 0 is the place of a target that has seen nothing
	}
}

// since returns the names that may have come in or gone out since a place, and false if
// that is not known.
func (v *namespaceView) since(seen uint64) (map[string]struct{}, bool) {
	if seen == 0 || v.seq-seen > uint64(len(v.turns)) {
		return nil, false
	}
	names := make(map[string]struct{}, v.seq-seen)
	for _, name := range v.turns[uint64(len(v.turns))-(v.seq-seen):] {
		names[name] = struct{}{}
	}
	return names, true
}

// viewed is what a target sees of a view at one moment.
type viewed struct {
	// at is the revision of the Namespaces, seq the place in the view.
	at, seq  uint64
	matching nameSet
	// arriving are the names that are in matching and not in what the target has, and
	// departing the others.
	arriving  map[string]turned
	departing map[string]struct{}
}

// viewed returns a view as it is. The caller holds mu.
func (n *namespaces) viewed(v *namespaceView) *viewed {
	return &viewed{at: n.at, seq: v.seq, matching: v.matching, arriving: make(map[string]turned), departing: make(map[string]struct{})}
}

// begin returns a view for a target that has nothing yet. It returns nil if there has
// been no list yet, and why.
func (n *namespaces) begin(key viewKey) (*viewed, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.views[key]
	if n.known == nil || v == nil {
		return nil, n.err
	}
	return n.viewed(v), nil
}

// look returns how a view differs from what a target has, which it had at the place
// seen; 0 compares all names. It returns nil if there has been no list yet, and why.
func (n *namespaces) look(key viewKey, has nameSet, seen uint64) (*viewed, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.views[key]
	if n.known == nil || v == nil {
		return nil, n.err
	}
	s := n.viewed(v)
	changed, known := v.since(seen)
	compare := maps.Keys(changed)
	if !known {
		compare = func(yield func(string) bool) {
			for name := range v.matching.all() {
				if !yield(name) {
					return
				}
			}
			for name := range has.all() {
				if !yield(name) {
					return
				}
			}
		}
	}
	for name := range compare {
		switch is := v.matching.has(name); {
		case is == has.has(name):
		case is:
			s.arriving[name] = n.known[name].matched(v.selector)
		default:
			s.departing[name] = struct{}{}
		}
	}
	return s, nil
}
