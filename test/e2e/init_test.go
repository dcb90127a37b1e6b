package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// TestInit: informd runs with the config and the permissions that init writes, as the
// account that they are for, and is allowed everything that the config needs. From init to the
// first event it takes less than two minutes.
func TestInit(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	user, err := c.AddUser("system:serviceaccount:informd:informd", "system:serviceaccounts", "system:serviceaccounts:informd")
	if err != nil {
		t.Fatal(err)
	}
	d := newInformd(t, setup{kubeconfig: user.Kubeconfig(), resources: "- {resource: pods}"})
	d.config = filepath.Join(d.dir, "init.yaml")
	manifest := filepath.Join(d.dir, "rbac.yaml")
	t.Setenv("KUBECONFIG", c.Kubeconfig())
	began := time.Now()
	stdout, stderr, code := runInformd(t, "init", "--config", d.config, "--rbac", manifest,
		"--resources", "configmaps,deployments.apps", "--sink", "stdout", "--cluster", "e2e")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	t.Setenv("KUBECONFIG", user.Kubeconfig())
	t.Setenv("INFORMD_JOURNAL_DIR", d.journalDir())
	t.Setenv("INFORMD_ADMIN_LISTEN", d.admin)
	t.Setenv("INFORMD_ADMIN_SOCKET", d.socket())
	d.must("validate")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, client, map[string]any{"kind": "Namespace"}, "v1", "informd")
	applyAll(t, client, string(text))
	eventually(t, "nothing is missing", func() bool {
		_, _, code := runInformd(t, "plan", "--config", d.config)
		return code == 0
	})
	d.start()
	d.waitForLive(2)
	if err := newWriter(client, configMapKind(), newLedger(), 1).create(t.Context(), "after-init"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the event on standard output", func() bool { return strings.Contains(d.stdout.String(), "after-init") })
	took := time.Since(began)
	t.Logf("from init to the first event: %v", took.Round(time.Millisecond))
	if took > 2*time.Minute {
		t.Errorf("from init to the first event it took %v", took)
	}
	d.stop()
	d.checkAllowed()
}
