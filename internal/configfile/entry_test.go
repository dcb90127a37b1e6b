package configfile_test

import (
	"strings"
	"testing"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
)

// An entry may be the name of a resource as kubectl takes it.
func TestResourceNames(t *testing.T) {
	for entry, want := range map[string]string{
		`pods`:                         "core pods",
		`deployments.apps`:             "apps deployments",
		`deployments.v1.apps`:          "apps v1 deployments",
		`certificates.cert-manager.io`: "cert-manager.io certificates",
		`sensors.v1beta1.example.com`:  "example.com v1beta1 sensors",
		`pods.v1`:                      "core v1 pods",
		`pods.v1.`:                     "core v1 pods",
		`pods.core`:                    "core pods",
		`"*.example.com"`:              "example.com *",
		`"*.*"`:                        "* *",
		`"widgets.*.example.com"`:      "*.example.com widgets",
		`"*sets.apps"`:                 "apps *sets",
		`"[a-d]*.apps"`:                "apps [a-d]*",
		`{group: apps, resource: "*"}`: "apps *",
		`{resource: "*"}`:              "core *",
		`{group: apps, version: v1, resource: "*"}`:            "apps v1 *",
		`{group: "*.example.com", resource: "*"}`:              "*.example.com *",
		`{group: "*", resource: widgets}`:                      "* widgets",
		`{resource: deployments.apps}`:                         "apps deployments",
		`{resource: deployments.v1.apps}`:                      "apps v1 deployments",
		`{group: apps, resource: deployments.apps}`:            "apps deployments",
		`{group: "", resource: pods}`:                          "core pods",
		`{group: core, resource: pods}`:                        "core pods",
		`{group: core, resource: pods.v1}`:                     "core v1 pods",
		`{version: v1, resource: deployments.apps}`:            "apps v1 deployments",
		`{version: v1, resource: deployments.v1.apps}`:         "apps v1 deployments",
		`{resource: v1alpha1s.v1alpha1.v1.example.com}`:        "v1.example.com v1alpha1 v1alpha1s",
		`{resource: things.v0.example.com, mode: metadata}`:    "v0.example.com things",
		`{group: example.com, version: v1, resource: things.}`: `error: "things.": resource is the plural name`,
		`deployments`:      "error: the core group has no deployments: write deployments.apps, or group: apps",
		`deployment`:       "error: the core group has no deployment: write deployments.apps, or group: apps",
		`Deployments.apps`: `error: "Deployments.apps"`,
		`deployment.apps`:  `error: "deployment": resource is the plural name`,
		`apps/deployments`: "error: write deployments.apps",
		`pods/status`:      "error: the subresource",
		`.apps`:            "error: ",
		`""`:               "error: is required",
		`{group: batch, resource: deployments.apps}`:   "error: names the group apps, and group names another",
		`{group: "", resource: deployments.apps}`:      "error: names the group apps, and group names another",
		`{group: null, resource: deployments.apps}`:    "apps deployments",
		`{group: "", resource: pods.v1}`:               "core v1 pods",
		`{group: core, resource: deployments.apps}`:    "error: names the group apps, and group names another",
		`{group: batch, resource: pods.core}`:          "error: names the group core, and group names another",
		`{version: v2, resource: deployments.v1.apps}`: "error: names the version v1, and version names another",
		`12`:    "error: must be a mapping",
		`-pods`: "error: a space is missing",
	} {
		t.Run(entry, func(t *testing.T) {
			c, err := configfile.Parse("c.yaml", []byte("resources:\n  - "+entry+"\nsinks: [{name: out, type: stdout}]\n"), fakeDrivers())
			if refused, bad := strings.CutPrefix(want, "error: "); bad {
				if !strings.Contains(text(err), refused) || !strings.Contains(text(err), "c.yaml:2:") {
					t.Errorf("error is %v, want %q in line 2", err, refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := c.Resources[0]
			name := strings.Join(strings.Fields(strings.Join([]string{groupName(got.Group), got.Version, got.Resource}, " ")), " ")
			if name != want || got.Pos != (config.Pos{Line: 2, Col: 5}) || got.Wildcard() != strings.ContainsAny(want, "*[") {
				t.Errorf("it is %q at %v, a wildcard: %t; want %q at 2:5", name, got.Pos, got.Wildcard(), want)
			}
		})
	}
}

func groupName(group string) string {
	if group == "" {
		return "core"
	}
	return group
}
