package daemon

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch"
)

// Plan returns the address of the API server that a daemon with this config would
// watch, and what watching would come to, target by target. It opens and changes
// nothing, so that a daemon may be running beside it; see [dynwatch.Plan].
func Plan(ctx context.Context, c *config.Config) (server string, p dynwatch.WatchPlan, err error) {
	kubernetes, err := kubernetesConfig(c.Kubernetes)
	if err != nil {
		return "", dynwatch.WatchPlan{}, err
	}
	p, err = dynwatch.Plan(ctx, dynwatch.Options{Kubernetes: kubernetes, MaxWatches: c.Kubernetes.MaxWatches}, wanted(c))
	if err != nil {
		return display.Address(kubernetes.Host), p, err
	}
	// An answer that is none is no news.
	if _, err := identify(ctx, kubernetes); apierrors.IsForbidden(err) {
		p.Optional = append(p.Optional, dynwatch.MissingAccess{
			Resource: "namespaces", Name: metav1.NamespaceSystem, Verbs: []string{"get"},
			Without: "informd cannot notice that the address leads to another cluster",
		})
	}
	return display.Address(kubernetes.Host), p, nil
}
