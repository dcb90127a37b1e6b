package dynwatch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// ServedResource is a resource that the API server serves and that can be watched.
type ServedResource struct {
	Group, Version, Resource, Kind string
	Namespaced                     bool
	// OtherGroups are further groups in which the API server serves the same storage.
	OtherGroups []string
}

// Served lists the resources that the API server serves and that can be watched, in the
// preferred version, sorted by group and name. A resource that is served in two groups is
// listed once. It makes a few requests to discovery and changes nothing. The error is
// that of an API server that does not answer, or that of ctx.
func Served(ctx context.Context, kubernetes *rest.Config) ([]ServedResource, error) {
	c, err := kube.NewClients(kubernetes, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("list served resources: %w", err)
	}
	defer c.Close()
	if err := (&planner{clients: c}).greet(ctx); err != nil {
		return nil, err
	}
	known, err := catalog.Read(ctx, c, nil)
	if err != nil {
		return nil, fmt.Errorf("list served resources: %w", err)
	}
	var found []ServedResource
	for _, names := range known.Storages {
		one := names[0]
		if o, ok := known.Find(catalog.AnyVersion, one); ok && o.Watchable {
			served := ServedResource{Group: one.Group, Version: o.Version, Resource: one.Resource, Kind: o.Kind, Namespaced: o.Namespaced}
			for _, other := range names[1:] {
				served.OtherGroups = append(served.OtherGroups, other.Group)
			}
			found = append(found, served)
		}
	}
	slices.SortFunc(found, func(a, b ServedResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return found, nil
}
