package core_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

func TestOneBadResourceAndOneDeadSinkHurtNobody(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	user, err := c.AddUser("limited")
	e2e.Must(t, err)
	e2e.AllowConfigMaps(t, client, "limited")
	e2e.AllowVerbs(t, client, "limited", "", "pods", "list")
	kinds := []e2e.Kind{e2e.ConfigMapKind()}
	l := e2e.NewLedger()
	d := e2e.StartInformd(t, user.Kubeconfig(), `
		- {resource: configmaps, namespaces: [default]}
		- {resource: pods}
		- {group: none.example.com, resource: things}
		- {resource: nodes, namespaces: [default]}`, fmt.Sprintf(`
		- {name: dead, type: nats, servers: "nats://%s"}
		- {name: unwritable, type: file, path: /nowhere/events}`, e2e.FreeAddress(t)))
	d.WaitForSync(1)
	e2e.WriteAll(t, client, kinds, l, 60, 1)
	e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete(kinds, d.Records(), l) })
	e2e.Check(t, kinds[0], d.Records(), l, client, e2e.Claim{})
	want := map[string]string{
		"core/configmaps@default": "live []", "core/pods": "forbidden [watch]",
		"none.example.com/things": "waiting []", "core/nodes@default": "degraded []",
	}
	e2e.Eventually(t, "each target in its state, each bad sink with its error", func() bool {
		s, err := d.Status()
		got := make(map[string]string)
		for _, target := range s.Targets {
			got[target.Target] = fmt.Sprint(target.State, " ", target.MissingVerbs)
		}
		for _, sink := range s.Sinks {
			if sink.Name != "all" && sink.LastError == "" {
				return false
			}
		}
		return err == nil && maps.Equal(got, want)
	})
	for _, probe := range []string{"/healthz", "/readyz"} {
		e2e.Eventually(t, probe, func() bool {
			_, code, err := d.Get(probe)
			return err == nil && code == http.StatusOK
		})
	}
	// Granted later, the forbidden resource comes by itself.
	e2e.AllowPods(t, client, "limited")
	d.WaitForSync(2)
}

func TestWrongCredentials(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	config := c.RESTConfig()
	config.BearerToken = "wrong"
	p := e2e.StartProxy(t, config)
	p.Set(func() {})
	d := e2e.StartInformd(t, p.Kubeconfig, "- {resource: configmaps}", "")
	e2e.Eventually(t, "target degraded", func() bool {
		s, err := d.Status()
		return err == nil && len(s.Targets) == 1 && s.Targets[0].State == "degraded" && strings.Contains(s.Targets[0].Reason, "Unauthorized")
	})
}

// TestSignals: the first SIGTERM drains, for as long as there is hope, and the
// second one ends it.
func TestSignals(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	d := e2e.StartInformd(t, c.Kubeconfig(), "- {resource: namespaces}", "")
	d.WaitForSync(1)
	d.Stop()
	if d.Err != nil {
		t.Errorf("drained informd: %v", d.Err)
	}
	d = e2e.StartInformd(t, c.Kubeconfig(), "- {resource: namespaces}",
		fmt.Sprintf(`- {name: dead, type: nats, servers: "nats://%s"}`, e2e.FreeAddress(t)))
	d.WaitForSync(1)
	e2e.Must(t, d.Cmd.Process.Signal(syscall.SIGTERM))
	e2e.Eventually(t, "draining", func() bool { return strings.Contains(d.Stderr.String(), "stopping") })
	select {
	case <-d.Exited:
		t.Error("informd did not wait for its sink")
	default:
	}
	began := time.Now()
	e2e.Must(t, d.Cmd.Process.Signal(syscall.SIGTERM))
	<-d.Exited
	if code := d.Cmd.ProcessState.ExitCode(); code != 1 || time.Since(began) > 10*time.Second {
		t.Errorf("exit %d after %v", code, time.Since(began))
	}
	if !strings.Contains(d.Stderr.String(), "events were not delivered") {
		t.Error("nobody says that events were not delivered")
	}
}

// TestOnce: a run beside a pair, with its config, has nothing to do with its lease.
func TestOnce(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	path := e2e.WriteFile(t, "config.yaml", fmt.Sprintf("kubernetes: {kubeconfig: %q}\nresources: [{resource: namespaces}]\nsinks: [{name: out, type: stdout}]\njournal: {dir: %q}\nadmin: {listen: \"127.0.0.1:1\"}\nreplicas: {lease: informd, namespace: nowhere, address: \"127.0.0.1:1\"}\n", c.Kubeconfig(), t.TempDir()))
	stdout, stderr, code := e2e.RunInformd(t, "run", "--once", "--config", path)
	if code != 0 || !strings.Contains(stdout, `"name":"kube-system"`) || !strings.Contains(stdout, `"op":"synced"`) {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
}
