package configfile_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExcludedResources: none, and some.
func TestExcludedResources(t *testing.T) {
	for exclude, want := range map[string][]string{
		"[]": {}, `[events, "core/secrets", "*.metrics.k8s.io/*"]`: {"events", "core/secrets", "*.metrics.k8s.io/*"},
	} {
		c := mustParse(t, "resources: [{group: '*', resource: '*', excludeResources: "+exclude+"}]\n"+
			"sinks: [{name: out, type: stdout}]\n")
		if diff := cmp.Diff(want, c.Resources[0].ExcludeResources); diff != "" {
			t.Errorf("%s (-want +got):\n%s", exclude, diff)
		}
	}
}

// A route may name whatever a wildcard can match.
func TestRoutesOfWildcards(t *testing.T) {
	for _, only := range []string{
		`{resource: pods}`, `{group: apps}`, `{group: apps, resource: deployments}`, `{group: "", resource: configmaps}`, `{group: "", resource: events}`,
	} {
		text := fmt.Sprintf("resources: [{group: '*', resource: '*', excludeResources: [apps/events]}]\nsinks: [{name: out, type: stdout, match: [%s]}]\n", only)
		mustParse(t, text)
	}
}
