package chaos

import (
	"crypto/sha256"
	"encoding/json"
	"hash/fnv"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// rule is what informd's entry of a resource says besides its name.
type rule struct {
	labels labels.Selector // of the objects; nil: all
	spaces labels.Selector // of their Namespaces; nil: all
	// filters: of updates, only those become events that change the gate.
	filters bool
}

// selects: not all objects of the resource are announced.
func (r rule) selects() bool { return r.labels != nil || r.spaces != nil }

// plain: every revision of the resource is an event.
func (r rule) plain() bool { return !r.selects() && !r.filters }

// rulesOf are the rules of the resources that are not plain, by target.
func rulesOf(kinds []*Kind) map[string]rule {
	rules := make(map[string]rule)
	for _, k := range kinds {
		if r := k.rule(); !r.plain() {
			rules[k.target()] = r
		}
	}
	return rules
}

// spaceLabels are what the Namespaces' labels are compared with.
func spaceLabels() labels.Selector { return selector(tierSelector) }

// The entries with selectors and change filters. noop is one that compares the whole object.
const (
	tierSelector  = "tier in (prod,stage)"
	shadeSelector = "shade in (dark,dim),!hidden"
	noopFilter    = "{noop: false}"
	changedFilter = "{changed: [spec, metadata.labels], noop: false}"
)

func selector(text string) labels.Selector {
	if text == "" {
		return nil
	}
	s, err := labels.Parse(text)
	if err != nil {
		return labels.Nothing() // informd refuses the text, too
	}
	return s
}

// gateOf is what a change filter compares: equal gates, no event. The preset spec is the
// generation.
func gateOf(kind string, meta map[string]any, content Hash) Hash {
	if kind != "Flare" {
		return content
	}
	text, _ := json.Marshal([]any{meta["generation"], meta["labels"]}) // decoded JSON
	sum := sha256.Sum256(text)
	return Hash(sum[:len(Hash{})])
}

// pick is one of several for a text, always the same.
func pick(text string, of ...string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return of[h.Sum32()%uint32(len(of))]
}

// space is a time, in revisions, during which a namespace matches: [from, to).
type space struct{ from, to uint64 }

// endless is the end of a space that lasts.
const endless = ^uint64(0)

// spacesOf returns when the namespaces matched, by name.
func spacesOf(t *Truth) map[string][]space { //nolint:gocognit // one pass over the history of the Namespaces
	type turn struct {
		rv      uint64
		matches bool
	}
	turns := make(map[string][]turn)
	for _, o := range t.Objects {
		if o.Target != namespaceTarget() {
			continue
		}
		for _, r := range o.Revisions {
			if !r.Undone {
				turns[o.Name] = append(turns[o.Name], turn{r.RV, r.Matches && !r.Deleted})
			}
		}
	}
	all := make(map[string][]space)
	for name, of := range turns {
		slices.SortFunc(of, func(a, b turn) int {
			if a.rv < b.rv {
				return -1
			}
			return 1
		})
		var spaces []space
		for _, x := range of {
			n := len(spaces)
			open := n > 0 && spaces[n-1].to == endless
			switch {
			case x.matches && !open:
				spaces = append(spaces, space{x.rv, endless})
			case !x.matches && open:
				spaces[n-1].to = x.rv
			}
		}
		all[name] = spaces
	}
	return all
}

// firstUndone returns the first revision that a restore took back.
func firstUndone(t *Truth) uint64 {
	first := endless
	for _, o := range t.Objects {
		for _, r := range o.Revisions {
			if r.Undone {
				first = min(first, r.RV)
			}
		}
	}
	return first
}

// matchesAt reports whether a namespace matches at a revision.
func matchesAt(spaces []space, rv uint64) bool {
	return slices.ContainsFunc(spaces, func(s space) bool { return s.from <= rv && rv < s.to })
}

// before returns the surviving revision before the one at an index; false if there is none.
func (o *Object) before(i int) (Revision, bool) {
	for _, r := range slices.Backward(o.Revisions[:i]) {
		if !r.Undone {
			return r, true
		}
	}
	return Revision{}, false
}

// after returns the first revision from which on the one at an index is not the object's state.
func (o *Object) after(i int) uint64 {
	for _, r := range o.Revisions[i+1:] {
		if !r.Undone {
			return r.RV
		}
	}
	return endless
}
