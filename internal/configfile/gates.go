package configfile

import (
	"slices"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/config/document"
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
func (r *checker) checkMatchGates(m config.Match, path string, resources []config.Resource) {
	if len(m.Changed) == 0 {
		return
	}
	full := func(one config.Resource) bool {
		return one.Mode != config.ModeMetadata && one.MayBe(m.Group, m.Resource)
	}
	r.checkGates(m.Changed, path+".changed", r.named(resources) && !slices.ContainsFunc(resources, full))
	modified := string(event.Modified)
	if len(m.Ops) > 0 && !slices.Contains(m.Ops, modified) {
		r.fail(path+".changed", "filters modified events, which ops excludes: add modified to ops, or remove changed")
	}
}
