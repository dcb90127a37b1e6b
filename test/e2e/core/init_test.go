package core_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestInit: informd runs with the config that init writes and the permissions that rbac prints, as the
// account that they are for, and is allowed everything that the config needs. From init to the
// first event it takes less than two minutes.
func TestInit(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	user, err := c.AddUser("system:serviceaccount:informd:informd", "system:serviceaccounts", "system:serviceaccounts:informd")
	e2e.Must(t, err)
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: user.Kubeconfig(), Resources: "- {resource: pods}"})
	d.Config = filepath.Join(d.Dir, "init.yaml")
	t.Setenv("KUBECONFIG", c.Kubeconfig())
	began := time.Now()
	stdout, stderr, code := e2e.RunInformd(t, "init", "--config", d.Config,
		"--resources", "configmaps,deployments.apps", "--sink", "stdout", "--cluster", "e2e")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	t.Setenv("KUBECONFIG", user.Kubeconfig())
	t.Setenv("INFORMD_JOURNAL_DIR", d.JournalDir())
	t.Setenv("INFORMD_ADMIN_LISTEN", d.Admin)
	t.Setenv("INFORMD_ADMIN_SOCKET", d.Socket())
	d.Must("validate")
	manifest, stderr, code := e2e.RunInformd(t, "rbac", "--config", d.Config)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	e2e.Apply(t, client, map[string]any{"kind": "Namespace"}, "v1", "informd")
	e2e.ApplyAll(t, client, manifest)
	e2e.Eventually(t, "nothing is missing", func() bool {
		_, _, code := e2e.RunInformd(t, "plan", "--config", d.Config)
		return code == 0
	})
	d.Start()
	d.WaitForLive(2)
	e2e.Must(t, e2e.NewWriter(client, e2e.ConfigMapKind(), e2e.NewLedger(), 1).Create(t.Context(), "after-init"))
	e2e.Eventually(t, "the event on standard output", func() bool { return strings.Contains(d.Stdout.String(), "after-init") })
	took := time.Since(began)
	t.Logf("from init to the first event: %v", took.Round(time.Millisecond))
	if took > 2*time.Minute {
		t.Errorf("from init to the first event it took %v", took)
	}
	d.Stop()
	d.CheckAllowed()
}
