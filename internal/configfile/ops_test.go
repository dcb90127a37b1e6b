package configfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMatchWithoutDeletions: a match whose ops exclude deletions or snapshots is a warning, unless
// another match of the sink delivers them.
func TestMatchWithoutDeletions(t *testing.T) {
	const at = "config.yaml:3:47: sinks[0].match[0].ops: "
	const pods, selected = "{resource: pods}", "{resource: pods, labelSelector: a=b}"
	deleted := at + "the sink gets no deleted events: add deleted to ops if its consumer keeps state"
	left := at + "the sink gets no left events: add left to ops if its consumer keeps state"
	const without = "; without snapshot, first lists and informd resnapshot send it nothing"
	snapshot := at + "the sink gets no snapshot events: add snapshot to ops if its consumer keeps state" + without
	unsent := at + "the sink gets no snapshot, deleted events: add snapshot, deleted to ops if its consumer keeps state" + without
	all := at + "the sink gets no snapshot, deleted, left events: add snapshot, deleted, left to ops if its consumer keeps state" + without
	for name, tt := range map[string]struct{ resources, match, want string }{
		"gaps without states":          {pods, `control: [gap]`, ""},
		"states without gaps":          {pods, `control: [state]`, "config.yaml:3:51: sinks[0].match[0].control: the sink does not learn of lost history: add gap to control, or use control: false for a consumer that needs no history"},
		"no control events":            {pods, `control: false`, ""},
		"no ops":                       {selected, `resource: pods`, ""},
		"no deletions":                 {pods, `ops: [snapshot, added, modified]`, deleted},
		"neither":                      {pods, `ops: [added, modified]`, unsent},
		"no snapshot":                  {pods, `ops: [added, modified, deleted]`, snapshot},
		"deletions":                    {pods, `ops: [snapshot, added, deleted]`, ""},
		"deletions alone":              {pods, `ops: [deleted]`, ""},
		"a selector, neither":          {selected, `ops: [added]`, all},
		"a selector, deletions alone":  {selected, `ops: [deleted]`, ""},
		"a selector, no left":          {selected, `ops: [snapshot, added, deleted]`, left},
		"a selector of namespaces":     {"{resource: pods, namespaceSelector: a=b}", `ops: [snapshot, modified, deleted]`, left},
		"a selector, both":             {selected, `ops: [snapshot, added, deleted, left]`, ""},
		"of another entry":             {selected + ", {resource: nodes}", `ops: [deleted], resource: nodes`, ""},
		"another match delivers them":  {pods, `ops: [added], resource: pods}, {ops: [snapshot, deleted]`, ""},
		"another match, another group": {pods + ", {group: apps, resource: deployments}", `ops: [added]}, {group: apps, ops: [deleted]`, snapshot},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustParse(t, "cluster: c\nresources: ["+tt.resources+
				"]\nsinks: [{name: a, type: stdout, match: [{"+tt.match+"}]}]\n")
			if diff := cmp.Diff(tt.want, warnings(c)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// An expression that reads what the objects of one entry do not have is worth a warning. One that asks first is in
// order. One that reads what no object has is refused.
func TestWhenAboutCuts(t *testing.T) {
	const status = `config.yaml:3:56: sinks[0].match[0].condition: events of resources[0] do not have status.phase, ` +
		`so that it fails for them unless it asks with has() first: `
	const none = "config.yaml:3:56: sinks[0].match[0].condition: no event that it matches has status.phase: "
	for name, tt := range map[string]struct{ resources, when, want string }{
		"nothing is cut":     {`{resource: pods}`, `object.status.phase == "x"`, ""},
		"of one entry":       {`{resource: pods, omit: [status]}, {resource: events}`, `object.status.phase == "x"`, status + "resources[0].omit cuts out status; remove that, or ask about what is left"},
		"of no entry":        {`{resource: pods, keep: [spec]}`, `object.status.phase == "x" || op == "added"`, none + "resources[0].keep does not have it; add it there, or ask about what is kept"},
		"not kept":           {`{resource: pods, keep: [spec]}, {resource: events}`, `object.status.phase == "x"`, status + "resources[0].keep does not have it; add it there, or ask about what is kept"},
		"metadata of one":    {`{resource: pods, mode: metadata}, {resource: events}`, `object.status.phase == "x"`, status + "resources[0] has mode: metadata; set mode: full, or ask about metadata"},
		"it asks":            {`{resource: pods, omit: [status]}, {resource: events}`, `has(object.status) && object.status.phase == "x"`, ""},
		"it asks otherwise":  {`{resource: pods, omit: [status]}`, `object.?status.phase.orValue("x") == "x"`, ""},
		"it wants none":      {`{resource: pods, omit: [status]}, {resource: events}`, `!has(object.status) || object.status.phase == "x"`, ""},
		"it asks inside":     {`{resource: pods, omit: [status]}, {resource: events}`, `has(object.status.phase)`, strings.NewReplacer("3:56", "3:60", "status.phase", "status").Replace(status) + "resources[0].omit cuts out status; remove that, or ask about what is left"},
		"the one before":     {`{resource: pods, changes: oldObject}, {resource: events}`, `oldObject.status.phase == "x"`, ""},
		"part of it is kept": {`{resource: pods, keep: ["status.conditions[].type"]}`, `object.status.conditions[0].type == "x"`, ""},
		"a part is cut":      {`{resource: pods, omit: [status.conditions]}`, `object.status != {}`, ""},
		"in elements":        {`{resource: pods, omit: ["status.conditions[].type"]}`, `object.status.conditions[0].type == "x"`, ""},
		"identity":           {`{resource: pods, keep: [spec]}`, `object.metadata.name == "x" && object.kind == "Pod"`, ""},
		"of another entry":   {`{resource: events, omit: [status]}, {resource: pods}`, `object.status.phase == "x" || op == "added"`, status + "resources[0].omit cuts out status; remove that, or ask about what is left"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parse("cluster: c\nresources: [" + tt.resources + "]\nsinks: [{name: out, type: stdout, match: [{condition: '" + tt.when + "'}]}]\n")
			got := text(err)
			if err == nil {
				got = warnings(c)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

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
