package configfile

import (
	"cmp"
	pathpkg "path"
	"slices"
	"strings"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/event"
)

// checkMatch checks one entry of a sink's match, and compiles its texts.
func (r *checker) checkMatch(m *config.Match, path string, resources []config.Resource) {
	if m.Group != nil && *m.Group == config.CoreName {
		*m.Group = ""
	}
	meant := r.meant(*m, resources)
	r.checkNamespaces(m.Namespaces, path+".namespaces")
	r.checkOps(m.Ops, path+".ops")
	r.checkControl(*m, path)
	r.checkWhen(m, path, meant)
	r.checkMatchChanged(m, path, meant)
	if m.Group != nil {
		message := groupMistake(*m.Group)
		if config.IsGlob(*m.Group) {
			message = "a pattern for groups is not supported here: write one match per group"
		}
		r.refuse(message != "", path+".group", "%s", message)
	}
	_, err := pathpkg.Match(m.Resource, "")
	r.refuse(err != nil, path+".resource", `%s is not a pattern for plural names: a name with * and ?`, config.Quote(m.Resource))
	instead := dottedName(m.Resource)
	r.refuse(instead != "", path+".resource", "%s is %s", config.Quote(m.Resource), instead)
	switch {
	case r.Bad(path+".group") || r.Bad(path+".resource"):
	case len(meant) > 0:
		r.checkReaches(m.Namespaces, path+".namespaces", meant)
	case r.named(resources):
		r.failUnselected(*m, path, resources)
	}
}

// entry is an entry of resources with its path in the config.
type entry struct {
	config.Resource
	at string
}

// meant returns the entries that a match may be about, none if it is not known which ones they are.
func (r *checker) meant(m config.Match, resources []config.Resource) (all []entry) {
	if !r.named(resources) {
		return nil
	}
	for i, one := range resources {
		if one.MayBe(m.Group, m.Resource) {
			all = append(all, entry{one, config.Index("resources", i)})
		}
	}
	return all
}

// dottedName says what to write instead of a name as an entry of resources may have it:
// <plural>.<group>, <plural>.<version>.<group> or <plural>.<version>. It is "" for other names.
func dottedName(text string) string {
	name, ok := config.ResourceNameOf(text)
	if !ok || config.IsGlob(text) {
		return ""
	}
	parts, instead := []string{"a plural name"}, "resource: "+name.Resource
	if name.Version != "" {
		parts = append(parts, "a version")
	}
	if name.Group != "" {
		parts, instead = append(parts, "a group"), "group: "+name.Group+", "+instead
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last] + ": write " + instead
}

// named reports whether it is known which resources are meant.
func (r *checker) named(resources []config.Resource) bool {
	if r.Failed["resources"] || len(resources) == 0 {
		return false
	}
	for i, one := range resources {
		path := config.Index("resources", i)
		if one.Pos == (config.Pos{}) || r.Failed[path+".group"] || r.Failed[path+".resource"] {
			return false
		}
	}
	return true
}

// failUnselected refuses a match that lets nothing through, because none of the
// resources is meant: a sink that waits for ever is hard to tell from a quiet
// cluster.
func (r *checker) failUnselected(m config.Match, path string, resources []config.Resource) {
	var groups, names []string
	for _, one := range resources {
		groups = append(groups, event.GroupOrCore(one.Group))
		if one.MayBe(m.Group, "") {
			names = append(names, one.Resource)
		}
	}
	if len(names) == 0 {
		r.fail(path+".group", "no entry of resources is in group %s%s", config.Quote(*m.Group), didYouMean(*m.Group, config.Unique(groups)))
		return
	}
	r.fail(path+".resource", "%s is in no entry of resources%s", config.Quote(m.Resource), didYouMean(m.Resource, config.Unique(names)))
}

// checkReaches refuses namespaces of a match that no entry of resources covers.
func (r *checker) checkReaches(namespaces []string, path string, meant []entry) {
	if r.Failed[path] {
		return
	}
	var names, excluded []string
	for _, one := range meant {
		if len(one.Namespaces) == 0 && len(one.ExcludeNamespaces) == 0 {
			return
		}
		names, excluded = append(names, one.Namespaces...), append(excluded, one.ExcludeNamespaces...)
	}
	covered := cmp.Or(strings.Join(config.Unique(names), ", "), "*")
	if len(excluded) > 0 {
		covered += " without " + strings.Join(config.Unique(excluded), ", ")
	}
	for i, namespace := range namespaces {
		if r.Bad(config.Index(path, i)) || slices.ContainsFunc(meant, func(one entry) bool { return one.Reaches(namespace) }) {
			continue
		}
		r.fail(config.Index(path, i), "no entry of resources covers %s (they have %s)", config.Quote(namespace), covered)
	}
}
