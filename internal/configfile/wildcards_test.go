package configfile_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
)

func TestWildcards(t *testing.T) {
	cases := map[string]struct {
		entry string
		want  config.Resource
	}{
		"a group":          {`{group: apps, resource: "*"}`, config.Resource{Group: "apps", Resource: "*"}},
		"the core group":   {`{resource: "*"}`, config.Resource{Resource: "*"}},
		"one version":      {`{group: apps, version: v1, resource: "*"}`, config.Resource{Group: "apps", Version: "v1", Resource: "*"}},
		"groups":           {`{group: "*.example.com", resource: "*"}`, config.Resource{Group: "*.example.com", Resource: "*"}},
		"one name":         {`{group: "*", resource: widgets}`, config.Resource{Group: "*", Resource: "widgets"}},
		"names":            {`{group: apps, resource: "*sets"}`, config.Resource{Group: "apps", Resource: "*sets"}},
		"letters":          {`{group: apps, resource: "[a-d]*"}`, config.Resource{Group: "apps", Resource: "[a-d]*"}},
		"nothing excluded": {`{resource: "*", excludeResources: []}`, config.Resource{Resource: "*", ExcludeResources: []string{}}},
		"all but": {
			`{group: "*", resource: "*", excludeResources: [events, "core/secrets", "*.metrics.k8s.io/*"]}`,
			config.Resource{Group: "*", Resource: "*", ExcludeResources: []string{"events", "core/secrets", "*.metrics.k8s.io/*"}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := configfile.Parse("config.yaml", []byte("resources:\n  - "+c.entry+"\nsinks: [{name: out, type: stdout}]\n"), fakeDrivers())
			if err != nil {
				t.Fatal(err)
			}
			c.want.Pos, c.want.Mode, c.want.Scope = config.Pos{Line: 2, Col: 5}, config.ModeFull, config.ScopeAuto
			c.want.EmitWhen.Noop = true
			if diff := cmp.Diff(c.want, got.Resources[0]); diff != "" {
				t.Error(diff)
			}
			if !got.Resources[0].Wildcard() {
				t.Error("it is not taken for a wildcard")
			}
		})
	}
}

// A route may name whatever a wildcard can match.
func TestRoutesOfWildcards(t *testing.T) {
	for _, only := range []string{
		`{resource: pods}`, `{group: apps}`, `{group: apps, resource: deployments}`, `{group: "", resource: configmaps}`, `{group: "", resource: events}`,
	} {
		text := fmt.Sprintf("resources: [{group: '*', resource: '*', excludeResources: [apps/events]}]\nsinks: [{name: out, type: stdout, match: [%s]}]\n", only)
		if _, err := configfile.Parse("config.yaml", []byte(text), fakeDrivers()); err != nil {
			t.Errorf("%s: %v", only, err)
		}
	}
}
