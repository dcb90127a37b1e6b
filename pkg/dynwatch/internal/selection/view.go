package selection

import (
	"maps"
	"sync"
)

// Flip says when a namespace began to match, or no longer matched. That was after revision After of the
// Namespaces, and at revision At at the latest. A revision that is not known is 0.
type Flip struct{ At, After uint64 }

// view is the set of Namespaces that a rule matches. All targets with the same rule share it.
type view struct {
	matcher
	users map[*labelled]struct{}
	names map[string]struct{}
	// hash is the sum of those of the names: it does not depend on how the set came to be.
	hash uint64
}

// labelled are the namespaces that a target covers by label. They are the namespaces of the view, except
// that the target has yet to apply the pending flips. The view is shared, so that 300 targets with the
// same 10,000 namespaces keep the names once.
type labelled struct {
	mu      *sync.RWMutex // that of the Namespaces
	view    *view         // nil until the target has joined
	changed chan struct{}
	pending map[string]Flip
	// leaving are no longer covered, but their frames count.
	leaving map[string]Leaving
}

func newView(rule Rule) *view {
	return &view{matcher: rule.matcher(), users: make(map[*labelled]struct{}), names: make(map[string]struct{})}
}

// update brings the view in line with one namespace. A target that has applied all earlier flips of the
// namespace has to apply this one. If the flip before it is still pending, the two cancel out, and the
// target has nothing to do.
func (v *view) update(name string, matches bool, f Flip) {
	if _, matched := v.names[name]; matches == matched {
		return
	}
	if matches {
		v.names[name] = struct{}{}
		v.hash += hashOfName(name)
	} else {
		delete(v.names, name)
		v.hash -= hashOfName(name)
	}
	for u := range v.users {
		if _, pending := u.pending[name]; pending {
			delete(u.pending, name)
		} else {
			u.pending[name] = f
		}
		u.wake()
	}
}

// relist brings the view in line with all namespaces, which a list at revision rv has. Before, the view
// was in line with the namespaces at revision after. If restored is true, earlier revisions do not compare
// with later ones, and of a pending flip only that it happened by rv is known.
func (v *view) relist(known map[string]namespace, after, rv uint64, restored bool) {
	for name, one := range known {
		at := one.rv
		if at <= after {
			// An older state of the Namespace has come back: etcd was restored. There are events with the id of this
			// revision, and a consumer would take another one for a repetition.
			at = rv
		}
		v.update(name, v.matches(name, one.labels), Flip{at, after})
	}
	for name := range maps.Clone(v.names) {
		if _, exists := known[name]; !exists {
			v.update(name, false, Flip{rv, after})
		}
	}
	for u := range v.users {
		for name := range u.pending {
			if restored {
				u.pending[name] = Flip{At: rv}
			}
		}
	}
}

// wake has a target look.
func (l *labelled) wake() {
	select {
	case l.changed <- struct{}{}:
	default: // it has yet to look anyway
	}
}

// covers reports whether the target covers a namespace. The caller holds mu.
func (l *labelled) covers(name string) bool {
	if l.view == nil {
		return false
	}
	_, matches := l.view.names[name]
	_, pending := l.pending[name]
	return matches != pending
}

// set covers a namespace, or does so no longer. The caller holds mu.
func (l *labelled) set(name string, covers bool, f Flip) {
	if _, matches := l.view.names[name]; matches == covers {
		delete(l.pending, name)
	} else {
		l.pending[name] = f
	}
}

// hash returns the hash of the names of all covered namespaces, for a mark. It is never 0, because 0 has
// a meaning in [Mark]. The caller holds mu.
func (l *labelled) hash() uint64 {
	h := l.view.hash
	for name := range l.pending {
		if l.covers(name) {
			h += hashOfName(name)
		} else {
			h -= hashOfName(name)
		}
	}
	return max(h, 1)
}

// hashOfName is the same in every process.
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
