package configfile

import (
	pathpkg "path"
	"strings"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/event"
)

// checkMatch checks one entry of a sink's match, and compiles its texts.
func (r *checker) checkMatch(m *config.Match, path string, resources []config.Resource) {
	if m.Group != nil && *m.Group == config.CoreName {
		*m.Group = ""
	}
	r.checkNamespaces(m.Namespaces, path+".namespaces")
	r.checkOps(m.Ops, path+".ops")
	r.checkControl(*m, path)
	r.checkWhen(m, path, resources)
	r.checkMatchChanged(m, path, resources)
	if m.Group != nil && !r.Bad(path+".group") {
		message := groupMistake(*m.Group)
		if config.IsGlob(*m.Group) {
			message = "a pattern for groups is not supported here: write one match per group"
		}
		if message != "" {
			r.fail(path+".group", "%s", message)
		}
	}
	if _, err := pathpkg.Match(m.Resource, ""); err != nil && !r.Bad(path+".resource") {
		r.fail(path+".resource", `%s is not a pattern for plural names: a name with * and ?`, config.Quote(m.Resource))
	}
	if instead := dottedName(m.Resource); instead != "" && !r.Bad(path+".resource") {
		r.fail(path+".resource", "%s is %s", config.Quote(m.Resource), instead)
		return
	}
	if !r.Bad(path+".group") && !r.Bad(path+".resource") && r.named(resources) {
		r.checkSelects(*m, path, resources)
	}
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

// checkSelects refuses a match that lets nothing through, because none of the
// resources is meant: a sink that waits for ever is hard to tell from a quiet
// cluster.
func (r *checker) checkSelects(m config.Match, path string, resources []config.Resource) {
	inGroup := func(one config.Resource) bool { return one.MayBe(m.Group, "") }
	var groups, names []string
	var meant []config.Resource
	for _, one := range resources {
		if one.MayBe(m.Group, m.Resource) {
			meant = append(meant, one)
		}
		groups = append(groups, event.GroupOrCore(one.Group))
		if inGroup(one) {
			names = append(names, one.Resource)
		}
	}
	if len(meant) > 0 {
		r.checkReaches(m.Namespaces, path+".namespaces", meant)
		return
	}
	if len(names) == 0 {
		r.fail(path+".group", "no entry of resources is in group %s%s", config.Quote(*m.Group), didYouMean(*m.Group, config.Unique(groups)))
		return
	}
	r.fail(path+".resource", "%s is in no entry of resources%s", config.Quote(m.Resource), didYouMean(m.Resource, config.Unique(names)))
}
