package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/event"
)

// checkMatch checks one entry of a sink's only.
func (r *reading) checkMatch(m Match, path string, resources []Resource) {
	r.checkNamespaces(m.Namespaces, path+".namespaces")
	r.checkOps(m.Ops, path+".ops")
	r.checkBegin(m.Ops, path+".ops")
	r.checkWhen(m, path, resources)
	r.checkMatchGates(m, path, resources)
	if m.Group != nil && !r.bad(path+".group") {
		message := groupMistake(*m.Group)
		if isGlob(*m.Group) {
			message = "a pattern for groups is not supported here: write one match per group"
		}
		if message != "" {
			r.fail(path+".group", "%s", message)
		}
	}
	if !r.bad(path+".group") && !r.bad(path+".resource") && r.named(resources) {
		r.checkSelects(m, path, resources)
	}
}

// named reports whether it is known which resources are meant.
func (r *reading) named(resources []Resource) bool {
	if r.failed["resources"] || len(resources) == 0 {
		return false
	}
	for i, one := range resources {
		path := index("resources", i)
		if one.Pos == (Pos{}) || r.failed[path+".group"] || r.failed[path+".resource"] {
			return false
		}
	}
	return true
}

// checkSelects refuses a match that lets nothing through, because none of the
// resources is meant: a sink that waits for ever is hard to tell from a quiet
// cluster.
func (r *reading) checkSelects(m Match, path string, resources []Resource) {
	inGroup := func(one Resource) bool { return one.mayBe(m.Group, "") }
	var groups, names []string
	var meant []Resource
	for _, one := range resources {
		if one.mayBe(m.Group, m.Resource) {
			meant = append(meant, one)
		}
		groups = append(groups, cmp.Or(one.Group, `""`))
		if inGroup(one) {
			names = append(names, one.Resource)
		}
	}
	if len(meant) > 0 {
		r.checkReaches(m.Namespaces, path+".namespaces", meant)
		return
	}
	if len(names) == 0 {
		r.fail(path+".group", "no entry of resources is in group %s %s", quote(*m.Group), didYouMean(*m.Group, unique(groups)))
		return
	}
	r.fail(path+".resource", "%s is in no entry of resources %s", quote(m.Resource), didYouMean(m.Resource, unique(names)))
}

func unique(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// checkOps checks operations, each of them plain or with "!" in front.
func (r *reading) checkOps(ops []string, path string) {
	var known []string
	for _, op := range event.Ops() {
		known = append(known, string(op))
	}
	seen := map[string]string{}
	for i, op := range ops {
		at := index(path, i)
		name := strings.TrimPrefix(op, "!")
		first, twice := seen[name]
		switch {
		case r.bad(at):
		case !slices.Contains(known, name):
			r.fail(at, "unknown operation %s %s", quote(op), didYouMean(name, known))
		case twice && first == op:
			r.fail(at, "%q is in the list twice", op)
		case twice:
			r.fail(at, "%q contradicts %q: remove one", op, first)
		}
		seen[name] = op
	}
}

// checkBegin refuses a begin that the others of the list keep away: it passes only with the
// whole snapshot behind it.
func (r *reading) checkBegin(ops []string, path string) {
	i := slices.Index(ops, string(event.Begin))
	if i < 0 {
		return
	}
	whole := slices.Contains(ops, string(event.Snapshot)) && slices.Contains(ops, string(event.Added)) &&
		!slices.Contains(ops, "!"+string(event.Synced))
	if at := index(path, i); !whole && !r.bad(at) {
		r.fail(at, "%q has no effect without snapshot, added and synced: add them, or remove it", event.Begin)
	}
}
