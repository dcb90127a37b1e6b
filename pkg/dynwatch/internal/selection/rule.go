package selection

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Rule says which namespaces a watch of all namespaces is filtered by. The zero value
// filters nothing.
type Rule struct {
	// Names and Excluded are names and globs, sorted and joined by commas.
	Names, Excluded string
	// Selector is a label selector over the Namespaces.
	Selector string
}

// NewRule makes a rule that is comparable.
func NewRule(names, excluded []string, selector string) Rule {
	joined := func(names []string) string { return strings.Join(slices.Sorted(slices.Values(names)), ",") }
	return Rule{Names: joined(names), Excluded: joined(excluded), Selector: selector}
}

// matcher is a rule, parsed.
type matcher struct {
	names    *Filter
	selector labels.Selector
}

func (r Rule) matcher() matcher {
	selector, err := labels.Parse(r.Selector)
	if err != nil {
		selector = labels.Nothing() // it was checked
	}
	return matcher{NewFilter(r), selector}
}

func (m matcher) matches(name string, of labels.Set) bool {
	return m.selector.Matches(of) && m.names.Named(name)
}

// Filter says which namespaces a target covers. Its methods may be called
// concurrently, and on nil, which covers all.
type Filter struct {
	names, excluded []string
	// labelled are those that match by label, nil if labels do not count.
	labelled *labelled
}

// NewFilter returns nil if the rule filters nothing.
func NewFilter(r Rule) *Filter {
	if r == (Rule{}) {
		return nil
	}
	f := new(Filter)
	if r.Names != "" {
		f.names = strings.Split(r.Names, ",")
	}
	if r.Excluded != "" {
		f.excluded = strings.Split(r.Excluded, ",")
	}
	if r.Selector != "" {
		f.labelled = &labelled{leaving: make(map[string]Leaving)}
	}
	return f
}

// Named reports whether a namespace is meant by its name.
func (f *Filter) Named(namespace string) bool {
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, namespace)
		return ok && err == nil // the patterns were checked
	}
	return (len(f.names) == 0 || slices.ContainsFunc(f.names, matches)) && !slices.ContainsFunc(f.excluded, matches)
}

// Covers reports whether the index should hold the objects of a namespace.
func (f *Filter) Covers(namespace string) bool {
	if f == nil {
		return true
	}
	l := f.labelled
	if l == nil {
		return f.Named(namespace)
	}
	if l.view == nil {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.covers(namespace)
}

// Wants reports whether frames of a namespace count: it is covered, or was until just now.
func (f *Filter) Wants(namespace string) bool {
	if f.Covers(namespace) {
		return true
	}
	if f.labelled == nil || f.labelled.view == nil {
		return false
	}
	f.labelled.mu.RLock()
	defer f.labelled.mu.RUnlock()
	_, leaves := f.labelled.leaving[namespace]
	return leaves
}
