package daemon

import (
	"context"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch"
)

// Survey is what a config can name of a cluster.
type Survey struct {
	// Server is the address of the API server, Context the name of the context in the
	// kubeconfig, empty in a Pod.
	Server, Context string
	Resources       []dynwatch.ServedResource
}

// Ask asks the API server for the resources that can be watched. It changes nothing.
func Ask(ctx context.Context, c config.Kubernetes) (Survey, error) {
	kubernetes, err := kubernetesConfig(c)
	if err != nil {
		return Survey{}, err
	}
	s := Survey{Server: display.Address(kubernetes.Host), Context: c.Context}
	if rules, err := kubeconfigRules(c); err == nil && rules != nil && s.Context == "" {
		if loaded, err := rules.Load(); err == nil {
			s.Context = loaded.CurrentContext
		}
	}
	s.Resources, err = dynwatch.Served(ctx, kubernetes)
	return s, err
}
