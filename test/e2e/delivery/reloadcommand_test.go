package delivery_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/test/e2e"
)

// TestReloadCommand: the command reload applies a config, and fails with the errors of one
// that informd refuses, which changes nothing.
func TestReloadCommand(t *testing.T) {
	r := e2e.NewRig(t)
	s := e2e.Setup{Kubeconfig: r.Cluster.Kubeconfig(), Resources: "- {resource: configmaps}"}
	d := e2e.NewInformd(t, s)
	d.Start()
	d.WaitForSync(1)
	s.Sinks = "- {name: more, type: file, path: " + filepath.Join(d.Dir, "more.ndjson") + "}\n"
	d.Configure(s)
	if output := d.Must("reload"); !strings.Contains(output, "config "+d.Config+" reloaded: ") {
		t.Errorf("reload says %s", output)
	}
	if output := d.Must("status", "-o", "name"); !strings.Contains(output, "sink/more\n") {
		t.Errorf("no new sink in\n%s", output)
	}
	good, err := os.ReadFile(d.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Config, append(good, "resorces: []\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, code := d.Command("reload"); code != 1 || !strings.Contains(output, `resorces: unknown key (did you mean "resources"?)`) {
		t.Errorf("a config with an error: exit code %d: %s", code, output)
	}
	if output := d.Must("status"); !strings.Contains(output, "REFUSED") || !strings.Contains(output, "more") {
		t.Errorf("after a refused config:\n%s", output)
	}
}
