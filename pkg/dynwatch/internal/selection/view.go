package selection

import (
	"maps"
	"slices"
)

// maxFlips bounds how many changes of a view are remembered. A target that is further
// behind compares all names.
const maxFlips = 1024

// names is a set of namespaces.
type names struct {
	set map[string]struct{}
	// hash is the sum of those of the names: it does not depend on how the set came to be.
	hash uint64
}

func (n *names) has(name string) bool {
	_, ok := n.set[name]
	return ok
}

// mark is what stands for the set in a mark: not 0, which says that nothing is known.
func (n *names) mark() uint64 { return max(n.hash, 1) }

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

// Flip is when a namespace began to match, or no longer did: at revision At of the Namespaces at
// the latest, and not yet at revision After, 0 if that is not known.
type Flip struct{ At, After uint64 }

// view is the set of Namespaces that a rule matches. All targets with the same rule share one,
// and its set of names. A Namespace event changes the set by one name, and a target asks for the
// names that changed since it last asked.
type view struct {
	matcher
	users    map[chan struct{}]struct{}
	matching *names
	// shared: a target has the set, so that it is copied before its next change.
	shared bool
	// flips are the newest changes, the last of them number seq.
	flips []namedFlip
	seq   uint64
}

type namedFlip struct {
	name string
	Flip
}

func newView(rule Rule) *view {
	return &view{matcher: rule.matcher(), users: make(map[chan struct{}]struct{}), matching: &names{set: make(map[string]struct{})}}
}

// update brings the view in line with one namespace, and reports whether that changes it.
func (v *view) update(name string, matches bool, f Flip) (flipped bool) {
	if matches == v.matching.has(name) {
		return false
	}
	if v.shared {
		v.matching, v.shared = &names{maps.Clone(v.matching.set), v.matching.hash}, false
	}
	if matches {
		v.matching.set[name] = struct{}{}
		v.matching.hash += hashOfName(name)
	} else {
		delete(v.matching.set, name)
		v.matching.hash -= hashOfName(name)
	}
	if len(v.flips) >= maxFlips {
		v.flips = slices.Clone(v.flips[maxFlips/2:])
	}
	v.flips = append(v.flips, namedFlip{name, f})
	v.seq++
	return true
}

// relist brings the view in line with all namespaces at revision rv. It was in line with them at
// revision after.
func (v *view) relist(known map[string]namespace, after, rv uint64) {
	for name, one := range known {
		v.update(name, v.matches(name, one.labels), Flip{one.rv, after})
	}
	for name := range maps.Clone(v.matching.set) {
		if _, exists := known[name]; !exists {
			v.update(name, false, Flip{rv, after})
		}
	}
}

// forget forgets when namespaces flipped: revisions from before a rollback do not compare.
func (v *view) forget() {
	v.flips = nil
	v.seq++
}

// since returns the flips of names since a place, and false if they are not known.
func (v *view) since(seen uint64) (map[string]Flip, bool) {
	all := make(map[string]Flip)
	if v.seq-seen > uint64(len(v.flips)) {
		return all, false
	}
	for _, f := range v.flips[uint64(len(v.flips))-(v.seq-seen):] {
		all[f.name] = f.Flip
	}
	return all, true
}

// Viewed is what a target sees of a view at one moment.
type Viewed struct {
	// at is the revision of the Namespaces, seq the place in the view.
	at, seq  uint64
	matching *names
	// Match are the namespaces that match and that the target does not cover yet, Unmatch those that it
	// covers and that no longer match.
	Match, Unmatch map[string]Flip
}

// begin returns a view for a target that has nothing yet. It returns nil if there has
// been no list yet, and why.
func (n *Namespaces) begin(rule Rule) (*Viewed, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		return nil, n.err
	}
	return n.views[rule].show(n.at), nil
}

func (v *view) show(at uint64) *Viewed {
	v.shared = true
	return &Viewed{at: at, seq: v.seq, matching: v.matching, Match: make(map[string]Flip), Unmatch: make(map[string]Flip)}
}

// look returns how a view differs from what a target has, which it had at the place
// seen. It returns nil if there has been no list yet, and why.
func (n *Namespaces) look(rule Rule, has *labelled, seen uint64) (*Viewed, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		return nil, n.err
	}
	v := n.views[rule]
	s := v.show(n.at)
	changed, known := v.since(seen)
	if !known {
		for _, of := range []map[string]struct{}{has.matching.set, s.matching.set} {
			for name := range of {
				changed[name] = Flip{At: s.at}
			}
		}
	}
	for name := range has.flipped { // it can have failed
		if _, ok := changed[name]; !ok {
			changed[name] = Flip{At: s.at}
		}
	}
	for name, f := range changed {
		switch matches := s.matching.has(name); {
		case matches == has.has(name):
		case matches:
			s.Match[name] = f
		default:
			s.Unmatch[name] = f
		}
	}
	return s, nil
}
