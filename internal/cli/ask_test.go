package cli

import (
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// TestServedName: init takes the names that an entry of resources takes.
func TestServedName(t *testing.T) {
	served := []dynwatch.ServedResource{
		{Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "events", OtherGroups: []string{"events.k8s.io"}},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "metrics.k8s.io", Version: "v1", Resource: "pods"},
	}
	for said, want := range map[string]string{
		"pods": "pods", "pods.core": "pods", "core/pods": "pods", "pods.v1": "pods.v1", "pods.metrics.k8s.io": "pods.metrics.k8s.io",
		"deployments": "deployments.apps", "deployments.apps": "deployments.apps", "apps/deployments": "deployments.apps",
		"deployments.v1.apps": "deployments.v1.apps", "events": "events", "events.events.k8s.io": "events.events.k8s.io",
		"pods*": "pods*", "*": "*", "*.apps": "*.apps", "*.*": "*.*", "deploy*.apps": "deploy*.apps",
	} {
		if got, err := servedName(said, served); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", said, got, err, want)
		}
	}
	for _, said := range []string{"deploy*", "deployments.v1.batch", "nodes", "[", "*.batch", "pods/status"} {
		if got, err := servedName(said, served); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %q, %v; want an error", said, got, err)
		}
	}
}
