package dynwatch

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/event"
)

// nothingLeft is why a wildcard makes no target of what it matches.
const nothingLeft = "no resource remains: the matching resources are excluded, have their own entry, or do not fit the namespaces or version"

// expand returns the targets of the wanted set, and the plans of those wildcards that
// have something to say by themselves. What keeps wildcards from being expanded holds
// up nothing else, as it is when a Manager runs.
func (p *planner) expand(ctx context.Context, set wantedSet) (targets map[string]spec, wildcards []TargetPlan) {
	if len(set.wildcards) == 0 {
		return set.explicit, nil
	}
	c, err := catalog.Read(ctx, p.clients, nil)
	if err != nil {
		err = fmt.Errorf("expand the wildcard: %w", err)
	}
	var e *expansion
	if err == nil {
		e = set.plan(c, nil, func(string) bool { return true })
	}
	for _, r := range set.wildcards {
		state, reason := Degraded, ""
		switch {
		case apierrors.IsForbidden(err):
			state, reason = Forbidden, err.Error()
		case err != nil:
			reason = err.Error()
		default:
			state, reason = e.lacks(r.Resource, c)
			if limited := e.aboveLimit(r.id(), set.maxWatches); reason == "" && limited != "" {
				state, reason = Degraded, limited
			}
		}
		if reason != "" {
			wildcards = append(wildcards, wildcardPlan(r.Resource, state, reason))
		}
	}
	if err != nil {
		return set.explicit, wildcards
	}
	return e.targets, wildcards
}

// wildcardPlan is the plan of a wildcard itself.
func wildcardPlan(r Resource, state State, reason string) TargetPlan {
	t := newTargetPlan(r.specs()[0])
	t.Name, t.State, t.Reason = r.id(), state, display.Reason(reason)
	if t.Scope == ScopeNamespaced {
		t.Namespace, t.Namespaces = "", slices.Sorted(slices.Values(r.Namespaces))
	}
	return t
}

// lacks says what is wrong with an expanded wildcard, nothing if it has all targets
// that it can have.
func (e *expansion) lacks(r Resource, c *catalog.Catalog) (state State, reason string) {
	unknown := slices.DeleteFunc(c.Stale(), func(group string) bool { return !glob(r.Group, group) || r.excludesGroup(group) })
	switch {
	case len(unknown) > 0:
		for i, group := range unknown {
			unknown[i] = event.GroupOrCore(group)
		}
		return Degraded, fmt.Sprintf("discovery of API groups failed: %s; informd watches their matching resources once discovery works", strings.Join(unknown, ", "))
	case len(e.notes[r.id()].Running) > 0:
		return Ready, ""
	case r.matched(c):
		return Waiting, nothingLeft
	default:
		return Waiting, matchesNothing
	}
}

// excludesGroup reports whether a wildcard leaves out all that it matches in a group.
func (r Resource) excludesGroup(group string) bool {
	if !strings.ContainsAny(r.Resource, globs) {
		return r.excludes(schema.GroupResource{Group: group, Resource: r.Resource})
	}
	return slices.ContainsFunc(r.ExcludeResources, func(pattern string) bool {
		of, resource := path.Split(pattern)
		return resource == "*" && (of == "" || glob(strings.TrimSuffix(of, "/"), event.GroupOrCore(group)))
	})
}
