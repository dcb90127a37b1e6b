package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReloadCommand: the command reload applies a config, and fails with the errors of one
// that informd refuses, which changes nothing.
func TestReloadCommand(t *testing.T) {
	r := newRig(t)
	s := setup{kubeconfig: r.cluster.Kubeconfig(), resources: "- {resource: configmaps}"}
	d := newInformd(t, s)
	d.start()
	d.waitForSync(1)
	s.sinks = "- {name: more, type: file, path: " + filepath.Join(d.dir, "more.ndjson") + "}\n"
	d.configure(s)
	if output := d.must("reload"); !strings.Contains(output, "config "+d.config+" reloaded: ") {
		t.Errorf("reload says %s", output)
	}
	if output := d.must("status", "-o", "name"); !strings.Contains(output, "sink/more\n") {
		t.Errorf("no new sink in\n%s", output)
	}
	good, err := os.ReadFile(d.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.config, append(good, "resorces: []\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, code := d.command("reload"); code != 1 || !strings.Contains(output, `resorces: unknown key (did you mean "resources"?)`) {
		t.Errorf("a config with an error: exit code %d: %s", code, output)
	}
	if output := d.must("status"); !strings.Contains(output, "REFUSED") || !strings.Contains(output, "more") {
		t.Errorf("after a refused config:\n%s", output)
	}
}
