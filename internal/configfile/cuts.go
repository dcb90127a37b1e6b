package configfile

import (
	"fmt"
	"slices"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/when"
	"github.com/informd/informd/pkg/fieldpath"
)

// checkCuts is about an expression that reads what keep, omit or mode takes out of the
// objects. One that can be true of no entry's objects is refused; where it can be true,
// and fails for the objects of one, that is worth a warning.
func (r *checker) checkCuts(m config.Match, x *when.Expression, path string, resources []config.Resource) {
	if !r.named(resources) {
		return
	}
	var refusal, warning func()
	possible := false
	for i, one := range resources {
		if !one.MayBe(m.Group, m.Resource) {
			continue
		}
		at := config.Index("resources", i)
		cuts, ok := r.cutsOf(one, at)
		if !ok {
			return
		}
		holds, fails, read := x.Without(func(keys []string) bool { return cuts(keys) != "" })
		possible = possible || holds || read == nil
		if read != nil && refusal == nil {
			refusal = func() {
				place, begin := r.inExpression(m.Condition, path, read.Line, read.Col, "")
				r.Add(place, path, "%sno event that it matches has %s, so that it is never true: %s", begin, pathOf(read.Keys), cuts(read.Keys))
			}
		}
		if fails != nil && warning == nil {
			warning = func() {
				place, begin := r.inExpression(m.Condition, path, fails.Line, fails.Col, "")
				r.Warn(place, path, "%sevents of %s do not have %s, so that it fails for them unless it asks with has() first: %s", begin, at, pathOf(fails.Keys), cuts(fails.Keys))
			}
		}
	}
	switch {
	case !possible && refusal != nil:
		refusal()
	case warning != nil:
		warning()
	}
}

// cutsOf returns what says why the objects of an entry do not have what keys lead to, or
// "" if they may. It is not ok if the entry has mistakes.
func (r *checker) cutsOf(one config.Resource, at string) (cuts func(keys []string) string, ok bool) {
	for _, key := range []string{".keep", ".omit", ".mode"} {
		if r.Bad(at + key) {
			return nil, false
		}
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
