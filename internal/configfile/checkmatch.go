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

// checkOps checks the operations of object events.
func (r *checker) checkOps(ops []string, path string) {
	r.checkItems(ops, path, func(op string) string {
		name := strings.TrimPrefix(op, "!")
		switch {
		case slices.Contains(config.NamesOf(event.Op.Control), name):
			return config.Quote(op) + " is a control event: use control, which is true, false or a list, as in control: [begin, synced, gap]"
		case name != op:
			return config.Quote(op) + ": ops has no !: list each operation that the sink gets"
		case !slices.Contains(config.NamesOf(config.ObjectOp), op):
			return "unknown operation " + config.Quote(op) + didYouMean(op, config.NamesOf(config.ObjectOp))
		}
		return ""
	})
}

// checkControl checks the control events of a match. It refuses a begin that never matches.
func (r *checker) checkControl(m config.Match, path string) {
	at := path + ".control"
	r.checkItems(m.Control, at, nil)
	if len(m.Control) > 0 && !slices.Contains(m.Control, string(event.Gap)) && !r.Bad(at) {
		r.Warn(r.place(at), at, "the sink does not learn of lost history: add %s to control, or use control: false for a consumer that needs no history", event.Gap)
	}
	i := slices.Index(m.Control, string(event.Begin))
	if i < 0 || r.Bad(path+".ops") || !r.given(config.Index(at, i)) {
		return
	}
	whole := slices.Contains(m.Control, string(event.Synced)) && m.Admits(event.Snapshot) && m.Admits(event.Added)
	r.refuse(!whole, config.Index(at, i), "%q has no effect without synced in control, and snapshot and added in ops: add them, or remove it", event.Begin)
}

// checkDeletions warns about a sink that gets the states of objects, and none of whose matches has an operation that
// a consumer's state needs: it would keep deleted objects, or lack objects that a re-snapshot does not repair.
func (r *checker) checkDeletions(s config.Sink, at string, resources []config.Resource) {
	i := slices.IndexFunc(s.Match, func(m config.Match) bool {
		return len(m.Ops) > 0 && (m.Admits(event.Added) || m.Admits(event.Modified))
	})
	if i < 0 || r.Bad(at+".match") {
		return
	}
	var missing []string
	for _, op := range []event.Op{event.Snapshot, event.Deleted, event.Left} {
		made := op != event.Left || slices.ContainsFunc(resources, config.Resource.Selects)
		if made && !slices.ContainsFunc(s.Match, func(m config.Match) bool { return m.Admits(op) }) {
			missing = append(missing, string(op))
		}
	}
	if len(missing) == 0 {
		return
	}
	without := ""
	if missing[0] == string(event.Snapshot) {
		without = "; without snapshot, first lists and informd resnapshot send it nothing"
	}
	path, names := config.Index(at+".match", i)+".ops", strings.Join(missing, ", ")
	r.Warn(r.place(path), path, "the sink gets no %s events: add %[1]s to ops if its consumer keeps state%s", names, without)
}
