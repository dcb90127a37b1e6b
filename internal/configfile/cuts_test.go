package configfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
