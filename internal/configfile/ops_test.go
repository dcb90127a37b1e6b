package configfile_test

import (
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
