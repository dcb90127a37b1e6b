package selection

import (
	"maps"
	"sync"
)

// Flip is when a namespace began to match, or no longer did: at revision At of the Namespaces at
// the latest, and not yet at revision After, 0 if that is not known.
type Flip struct{ At, After uint64 }

// view is the set of Namespaces that a rule matches. All targets with the same rule share it.
type view struct {
	matcher
	users map[*labelled]struct{}
	names map[string]struct{}
	// hash is the sum of those of the names: it does not depend on how the set came to be.
	hash uint64
}

// labelled are the namespaces that a target covers by label: those of the view, but for the flips that
// the target has yet to apply. So 300 targets with the same 10,000 namespaces have these once.
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

// update brings the view in line with one namespace. Targets that have applied the flip before it
// have to apply this one; for the others nothing has changed.
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

// relist brings the view in line with all namespaces at revision rv. It was in line with them at
// revision after. Restored: revisions from before do not compare.
func (v *view) relist(known map[string]namespace, after, rv uint64, restored bool) {
	for name, one := range known {
		v.update(name, v.matches(name, one.labels), Flip{one.rv, after})
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

// hash is that of the names that are covered, in a mark: never 0. The caller holds mu.
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
