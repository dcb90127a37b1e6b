package dynwatch

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
)

// expand returns the targets of the wanted set, and the plans of those wildcards that
// have something to say by themselves. What keeps wildcards from being expanded holds
// up nothing else, as it is when a Manager runs.
func (p *planner) expand(ctx context.Context, set wantedSet) (targets map[string]target.Spec, wildcards []TargetPlan) {
	if len(set.Patterns) == 0 {
		return set.explicit, nil
	}
	c, err := catalog.Read(ctx, p.clients, nil)
	if err != nil {
		err = fmt.Errorf("expand the wildcard: %w", err)
	}
	var e *catalog.Expansion
	if err == nil {
		e = set.Plan(c, nil, func(catalog.Choice) bool { return true })
	}
	for i, of := range set.Patterns {
		state, reason, unsure := Degraded, "", false
		switch {
		case apierrors.IsForbidden(err):
			state, reason = Forbidden, err.Error()
		case err != nil:
			reason = err.Error()
		default:
			if reason, unsure = e.Lacks(of, c); reason == "" {
				reason = e.AboveLimit(of.ID(), set.maxWatches)
			} else if !unsure {
				state = Waiting
			}
		}
		if reason != "" {
			wildcards = append(wildcards, wildcardPlan(of.ID(), set.templates[i], state, reason))
		}
	}
	if err != nil {
		return set.explicit, wildcards
	}
	return set.expanded(e).targets, wildcards
}

// wildcardPlan is the plan of a wildcard itself.
func wildcardPlan(id string, template []target.Spec, state State, reason string) TargetPlan {
	t := newTargetPlan(template[0])
	t.Name, t.State, t.Reason = id, state, display.Reason(reason)
	if t.Scope == ScopeNamespaced {
		t.Namespace = ""
		for _, s := range template {
			t.Namespaces = append(t.Namespaces, s.Namespace)
		}
		slices.Sort(t.Namespaces)
	}
	return t
}
