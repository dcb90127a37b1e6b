package configfile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/when"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/fieldpath"
)

// checkReads is about an expression that reads what events do not have, because keep, omit or mode takes it out
// of the objects, or changes lacks oldObject. If no event that the match selects has it, the expression is refused.
// If those of one entry do not, and the expression does not ask first, it fails for them, which is worth a warning.
func (r *checker) checkReads(m config.Match, x *when.Expression, path string, meant []entry) {
	allCuts := make([]func(keys []string) string, len(meant))
	for i, one := range meant {
		var ok bool
		if allCuts[i], ok = r.cutsOf(one); !ok || r.Bad(one.at+".changes") {
			return
		}
	}
	var warn func()
	for _, read := range x.Reads() {
		var lacking []string // entries
		what, why := "", ""  // of the first one
		for i, one := range meant {
			if lacks, reason := one.lacks(read, allCuts[i]); reason != "" {
				lacking, what, why = append(lacking, one.at), cmp.Or(what, lacks), cmp.Or(why, reason)
			}
		}
		switch {
		case len(lacking) == 0:
		case len(lacking) == len(meant):
			place, begin := r.inExpression(m.Condition, path, read.Line, read.Col, "")
			r.Add(place, path, "%sno event that it matches has %s: %s", begin, what, why)
			return
		case warn == nil && !read.Asked && !read.Old:
			warn = func() {
				place, begin := r.inExpression(m.Condition, path, read.Line, read.Col, "")
				r.Warn(place, path, "%sevents of %s do not have %s, so that it fails for them unless it asks with has() first: %s",
					begin, lacking[0], what, why)
			}
		}
	}
	if warn != nil {
		warn()
	}
}

// lacks returns what of a read the objects of the entry do not have, and why, "" if they may have it.
func (e entry) lacks(read when.Read, cuts func(keys []string) string) (what, why string) {
	switch {
	case read.Old && !slices.Contains(e.Changes, config.ChangesOldObject):
		return config.ChangesOldObject, "add oldObject to the changes of " + e.at
	case len(read.Keys) > 0:
		return pathOf(read.Keys), cuts(read.Keys)
	}
	return "", ""
}

// cutsOf returns what says why the objects of an entry do not have what keys lead to, or
// "" if they may. It is not ok if the entry has mistakes.
func (r *checker) cutsOf(one entry) (cuts func(keys []string) string, ok bool) {
	at := one.at
	if r.Bad(at+".keep") || r.Bad(at+".omit") || r.Bad(at+".mode") {
		return nil, false
	}
	rules, err := fieldpath.ParseRules(one.Keep, one.Omit, nil, one.Mode == config.ModeMetadata)
	if err != nil {
		return nil, false
	}
	if rules == nil {
		rules = &fieldpath.Rules{}
	}
	return func(keys []string) string {
		by, cut := rules.Cuts(keys...)
		switch {
		case one.Mode == config.ModeMetadata && !slices.Contains([]string{"apiVersion", "kind", "metadata"}, keys[0]):
			return at + " has mode: metadata; set mode: full, or ask about metadata"
		case !cut:
			return ""
		case by == nil:
			return at + ".keep does not have it; add it there, or ask about what is kept"
		case !slices.ContainsFunc(rules.Omit, func(p fieldpath.Path) bool { return p.String() == by.String() }):
			return fmt.Sprintf("informd removes %s from every object", by)
		default:
			return fmt.Sprintf("%s.omit cuts out %s; remove that, or ask about what is left", at, by)
		}
	}, true
}

// pathOf is the text of a path.
func pathOf(keys []string) string {
	var text []byte
	for _, k := range keys {
		text = fieldpath.AppendKey(text, k)
	}
	return string(text)
}

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
