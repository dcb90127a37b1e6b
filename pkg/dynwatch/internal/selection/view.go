package selection

import (
	"maps"
)

// maxTurns bounds how many changes of a view are remembered. A target that is further
// behind compares all names.
const maxTurns = 1024

// view is the set of Namespaces that a rule matches. All
// targets with the same rule share one. A Namespace event changes
// the set by one name, and a target asks for the names that changed since it last asked.
type view struct {
	matcher
	users    map[chan struct{}]struct{}
	matching nameSet
	// turns are the names that came in or went out, the last of them number seq.
	turns []string
	seq   uint64
}

// update brings the view in line with one namespace, nil for none, and reports whether
// that changes it.
func (v *view) update(name string, one *namespace) (turned bool) {
	is := one != nil && v.matches(name, one.labels)
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

func (v *view) turn(name string) {
	v.seq++
	if len(v.turns) >= maxTurns {
		v.turns = append([]string(nil), v.turns[maxTurns/2:]...)
	}
	v.turns = append(v.turns, name)
}

// relist brings the view in line with all namespaces.
func (v *view) relist(known map[string]*namespace) {
	now := nameSetOf(func(yield func(string) bool) {
		for name, one := range known {
			if v.matches(name, one.labels) && !yield(name) {
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
func (v *view) since(seen uint64) (map[string]struct{}, bool) {
	if seen == 0 || v.seq-seen > uint64(len(v.turns)) {
		return nil, false
	}
	names := make(map[string]struct{}, v.seq-seen)
	for _, name := range v.turns[uint64(len(v.turns))-(v.seq-seen):] {
		names[name] = struct{}{}
	}
	return names, true
}

// Viewed is what a target sees of a view at one moment.
type Viewed struct {
	// at is the revision of the Namespaces, seq the place in the view.
	at, seq  uint64
	matching nameSet
	// Arriving are the names that are in matching and not in what the target has, and
	// departing the others.
	Arriving  map[string]Turned
	departing map[string]struct{}
}

// viewed returns a view as it is. The caller holds mu.
func (n *Namespaces) viewed(v *view) *Viewed {
	return &Viewed{at: n.at, seq: v.seq, matching: v.matching, Arriving: make(map[string]Turned), departing: make(map[string]struct{})}
}

// begin returns a view for a target that has nothing yet. It returns nil if there has
// been no list yet, and why.
func (n *Namespaces) begin(rule Rule) (*Viewed, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.views[rule]
	if n.known == nil || v == nil {
		return nil, n.err
	}
	return n.viewed(v), nil
}

// look returns how a view differs from what a target has, which it had at the place
// seen; 0 compares all names. It returns nil if there has been no list yet, and why.
func (n *Namespaces) look(rule Rule, has nameSet, seen uint64) (*Viewed, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.views[rule]
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
			s.Arriving[name] = n.known[name].matched(v.selector)
		default:
			s.departing[name] = struct{}{}
		}
	}
	return s, nil
}
