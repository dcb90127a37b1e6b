package config

import (
	"slices"

	"github.com/informd/informd/internal/config/internal/document"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/fieldpath"
)

// checkGates checks a list of change gates.
func (r *checker) checkGates(items []string, path string, metadataOnly bool) {
	for i, item := range items {
		at := document.Index(path, i)
		switch {
		case r.Bad(at):
		case slices.Contains(items[:i], item):
			r.fail(at, "%s is in the list twice", document.Quote(item))
		default:
			if _, err := fieldpath.ParseGate(item, metadataOnly); err != nil {
				r.fail(at, "%s: %v", document.Quote(item), err)
			}
		}
	}
}

// checkMatchGates checks the change filter of a match.
func (r *checker) checkMatchGates(m Match, path string, resources []Resource) {
	if len(m.Changed) == 0 {
		return
	}
	full := func(one Resource) bool { return one.Mode != ModeMetadata && one.mayBe(m.Group, m.Resource) }
	r.checkGates(m.Changed, path+".changed", r.named(resources) && !slices.ContainsFunc(resources, full))
	modified := string(event.Modified)
	if len(m.Ops) > 0 && !slices.Contains(m.Ops, modified) {
		r.fail(path+".changed", "filters modified events, which ops excludes: add modified to ops, or remove changed")
	}
}

// Asked are the gates of all sinks that may be about the entry's objects.
func (r Resource) Asked(sinks []Sink) (gates []string) {
	for _, s := range sinks {
		for _, m := range s.Match {
			if r.mayBe(m.Group, m.Resource) {
				gates = append(gates, m.Changed...)
			}
		}
	}
	slices.Sort(gates)
	return slices.Compact(gates)
}
