package configfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink/drivers"
)

// TestDifferences: a reload names the resources, sinks and keys that differ. An entry that
// has only moved does not differ, but resources does.
func TestDifferences(t *testing.T) {
	read := func(text string) *config.Config { return loadText(t, text) }
	was := read(`resources:
  - {resource: pods}
  - {resource: configmaps, namespaces: [a]}
  - {group: apps, resource: deployments}
sinks: [{name: out, type: stdout}, {name: log, type: file, path: a.ndjson}]
`)
	is := read(`log: {level: debug}
resources:
  - {group: apps, resource: deployments}
  - {resource: configmaps, namespaces: [a, b]}
  - {group: apps, resource: daemonsets}
sinks: [{name: log, type: file, path: b.ndjson}, {name: out, type: stdout}, {name: more, type: stdout}]
`)
	want := []config.Difference{
		{Kind: "sink", Name: "log", Change: "changed"},
		{Kind: "sink", Name: "more", Change: "added"},
		{Kind: "resource", Name: "configmaps", Change: "changed"},
		{Kind: "resource", Name: "daemonsets.apps", Change: "added"},
		{Kind: "resource", Name: "pods", Change: "removed"},
		{Kind: "key", Name: "log.level", Change: "changed"},
		{Kind: "key", Name: "resources", Change: "changed"},
	}
	if diff := cmp.Diff(want, was.Differences(is)); diff != "" {
		t.Error(diff)
	}
	if found := was.Differences(was); len(found) != 0 {
		t.Errorf("%v", found)
	}
}

// TestDifferencesOfOrder: the order of wildcards and of two names of one storage has a meaning.
func TestDifferencesOfOrder(t *testing.T) {
	const sinks = "\nsinks: [{name: out, type: stdout}]\n"
	const apps, all = `{group: apps, resource: "*"}`, `{group: "*", resource: "*"}`
	for name, tt := range map[string]struct {
		was, is string
		want    []config.Difference
	}{
		"wildcards in another order": {apps + ", " + all, all + ", " + apps, []config.Difference{{Kind: "key", Name: "resources", Change: "changed"}}},
		"names of one storage":       {"events, pods, events.events.k8s.io", "events.events.k8s.io, events, pods", []config.Difference{{Kind: "key", Name: "resources", Change: "changed"}}},
		"a wildcard before another":  {all, apps + ", " + all, []config.Difference{{Kind: "resource", Name: "*.apps", Change: "added"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := loadText(t, "resources: ["+tt.was+"]"+sinks).Differences(loadText(t, "resources: ["+tt.is+"]"+sinks))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func loadText(t *testing.T, text string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("informd", pflag.ContinueOnError)
	configfile.AddFlags(flags)
	c, err := configfile.Load(configfile.Source{Path: path, Flags: flags, Drivers: drivers.All()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
