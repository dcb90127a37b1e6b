package dynwatch

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/target"
)

// OwnerResources are the resources, sorted by group, from which Kubernetes' own controllers
// make other objects. [Resource.OwnerChain] needs get on them. Custom resources can be
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
// their roots. Which kinds other controllers are of only the objects tell.
func (p *planner) optionalOwners(ctx context.Context, targets map[string]target.Spec) []MissingAccess {
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
			all = append(all, p.missing(ctx, r.WithVersion(""), namespace, []string{"get"}, "owner chains end at these objects")...)
		}
	}
	return all
}
