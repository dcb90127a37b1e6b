package dynwatch

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/spec"
)

// OwnerResources are the resources, sorted by group, from which Kubernetes' own controllers
// make other objects. [Resource.Owner] needs list and watch on them. Custom resources can be
// controllers, too; without permission to read them, a chain ends there.
func OwnerResources() []schema.GroupResource {
	return []schema.GroupResource{
		{Resource: "replicationcontrollers"},
		{Group: "apps", Resource: "daemonsets"},
		{Group: "apps", Resource: "deployments"},
		{Group: "apps", Resource: "replicasets"},
		{Group: "apps", Resource: "statefulsets"},
		{Group: "batch", Resource: "cronjobs"},
		{Group: "batch", Resource: "jobs"},
	}
}

// optionalOwners asks for what the credentials lack to follow chains of owners up to
// their roots, but for what is watched anyway. Which kinds other controllers are of only
// the objects tell.
func (p *planner) optionalOwners(ctx context.Context, targets map[string]spec.Spec) []MissingAccess {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	var scopes []string
	for _, s := range targets {
		if s.Owner && !slices.Contains(scopes, s.Namespace) {
			scopes = append(scopes, s.Namespace)
		}
	}
	slices.Sort(scopes)
	if len(scopes) > 0 && scopes[0] == "" {
		scopes = scopes[:1] // that is everywhere
	}
	var all []MissingAccess
	for _, namespace := range scopes {
		for _, r := range OwnerResources() {
			if !watchedIn(targets, r, namespace) {
				all = append(all, p.missing(ctx, r.WithVersion(""), namespace, "owner chains end at these objects")...)
			}
		}
	}
	return all
}

// watchedIn reports whether a target needs all objects of a resource in a namespace, or
// everywhere if it is empty, for itself.
func watchedIn(targets map[string]spec.Spec, r schema.GroupResource, namespace string) bool {
	one := spec.Spec{Group: r.Group, Resource: r.Resource}
	everywhere, isEverywhere := targets[one.Name()]
	one.Namespace = namespace
	there, isThere := targets[one.Name()]
	return isEverywhere && !everywhere.Selects() || isThere && !there.Selects()
}
