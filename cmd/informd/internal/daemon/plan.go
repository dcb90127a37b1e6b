package daemon

import (
	"context"

	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/pkg/dynwatch"
)

// Plan returns the address of the API server that a daemon with this config would
// watch, and what watching would come to, target by target. It opens and changes
// nothing, so that a daemon may be running beside it; see [dynwatch.Plan].
func Plan(ctx context.Context, c *config.Config) (server string, targets []dynwatch.TargetPlan, err error) {
	kubernetes, err := kubernetesConfig(c.Kubernetes)
	if err != nil {
		return "", nil, err
	}
	targets, err = dynwatch.Plan(ctx, kubernetes, wanted(c.Resources))
	return kubernetes.Host, targets, err
}
