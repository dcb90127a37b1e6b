package configfile

import (
	"slices"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/fieldpath"
)

// checkEmitWhen checks the change filters of an entry.
func (r *checker) checkEmitWhen(one config.Resource, at string) {
	changed, path := one.EmitWhen.Changed, at+".emitWhen.changed"
	r.checkChanged(changed, path, one.Mode == config.ModeMetadata && !r.Bad(at+".mode"))
	r.checkRemoved(changed, path, []entry{{one, at}})
}

// checkMatchChanged checks the change filters of a match, and notes their ids.
func (r *checker) checkMatchChanged(m *config.Match, path string, meant []entry) {
	if len(m.Changed) == 0 {
		return
	}
	full := func(one entry) bool { return one.Mode != config.ModeMetadata }
	r.checkChanged(m.Changed, path+".changed", len(meant) > 0 && !slices.ContainsFunc(meant, full))
	for _, item := range m.Changed {
		if f, err := fieldpath.ParseChangeFilter(item, false); err == nil { // others are reported
			m.Filters = append(m.Filters, f.ID())
		}
	}
	modified := string(event.Modified)
	if len(m.Ops) > 0 && !slices.Contains(m.Ops, modified) {
		r.fail(path+".changed", "filters modified events, which ops excludes: add modified to ops, or remove changed")
	}
	r.checkRemoved(m.Changed, path+".changed", meant)
}

// checkChanged checks a list of change filters.
func (r *checker) checkChanged(items []string, path string, metadataOnly bool) {
	r.checkItems(items, path, func(item string) string {
		_, err := fieldpath.ParseChangeFilter(item, metadataOnly)
		return quoted(item, err)
	})
}

// checkRemoved warns of change filters that name what no event of the entries has.
func (r *checker) checkRemoved(items []string, path string, entries []entry) {
	if r.Failed[path] {
		return
	}
	for i, item := range items {
		why := ""
		for _, one := range entries {
			cuts, ok := r.cutsOf(one)
			if !ok {
				return
			}
			if why = removed(item, cuts); why == "" {
				break
			}
		}
		if at := config.Index(path, i); why != "" {
			r.Warn(r.place(at), at, "%s is in no event, so that it never changes: %s", config.Quote(item), why)
		}
	}
}

// removed returns why events have nothing of what a change filter names, "" if they may.
func removed(item string, cuts func(keys []string) string) (why string) {
	f, err := fieldpath.ParseChangeFilter(item, false)
	if err != nil {
		return "" // it is reported
	}
	paths, _ := f.Paths()
	for _, p := range paths {
		keys := p.Keys()
		if len(keys) == 0 {
			return ""
		}
		if why = cuts(keys); why == "" {
			return ""
		}
	}
	return why
}
