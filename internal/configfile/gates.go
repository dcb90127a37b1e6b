package configfile

import (
	"slices"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/fieldpath"
)

// checkGates checks a list of change gates.
func (r *checker) checkGates(items []string, path string, metadataOnly bool) {
	r.checkItems(items, path, func(item string) string {
		_, err := fieldpath.ParseGate(item, metadataOnly)
		return quoted(item, err)
	})
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
