package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// runInformd runs informd to its end and returns its output and exit code.
func runInformd(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, informdBinary, args...)
	var out, errs lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readLetters returns the dead letters of a sink, one per line.
func readLetters(t *testing.T, d *informd, sink string) string {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(d.must("deadletters", "list", "--sink", sink, "-o", "json")) {
		var l struct{ Letter json.RawMessage }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all.Write(append(l.Letter, '\n'))
	}
	return all.String()
}

const twentyMistakes = `clutser: prod
kubernetes: {kubeconfg: ""}
resources:
  - {group: apps, resource: Deployments}
  - {resource: pods, mode: ful, labelSelector: "app in (", fieldSelector: "status.phase"}
  - {resource: pods}
  - {resource: ""}
  - {resource: services, namespaces: shop, verison: v1}
journal: {type: memmory}
sinks:
  - {name: out, type: stdot}
  - {name: out, type: stdout, format: prety}
  - {name: hook, type: webhook, url: "https://example.com", timeout: soon}
  - {type: stdout}
  - {name: arch, type: file, path: "", match: [{ops: [addded]}]}
admin: {listen: nowhere}
log: {level: loud}
`

func TestTwentyMistakes(t *testing.T) {
	path := writeFile(t, "config.yaml", twentyMistakes)
	for _, command := range []string{"validate", "run"} {
		_, stderr, code := runInformd(t, command, "--config", path)
		if code != 2 {
			t.Errorf("%s: exit code %d, want 2", command, code)
		}
		located := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(path)+`:\d+:\d+: `).FindAllString(stderr, -1)
		if len(located) != 20 {
			t.Errorf("%s: %d located errors, want 20:\n%s", command, len(located), stderr)
		}
		for _, hint := range []string{`"cluster"`, `"kubeconfig"`, `"version"`, `"memory"`, `"stdout"`, `"added"`, "pretty"} {
			if !strings.Contains(stderr, hint) {
				t.Errorf("%s: nothing points to %s", command, hint)
			}
		}
	}
}

func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown command": {[]string{"rnu"}, 2, "rnu"},
		"unknown flag":    {[]string{"run", "--confg", "x"}, 2, "confg"},
		"no such config":  {[]string{"run", "--config", "/nonexistent.yaml"}, 2, "/nonexistent.yaml"},
		"version":         {[]string{"version"}, 0, "informd"},
		"help":            {[]string{"--help"}, 0, "validate"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := runInformd(t, c.args...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("exit %d, want %d and %q:\n%s%s", code, c.code, c.want, stdout, stderr)
			}
		})
	}
}

// unreachable is the kubeconfig of an API server that is not there.
func unreachable(t *testing.T) string {
	t.Helper()
	return writeFile(t, "kubeconfig", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":"http://%s"}}],"users":[{"name":"u","user":{}}]}`, freeAddress(t)))
}

func TestUnreachableAPIServer(t *testing.T) {
	d := startInformd(t, unreachable(t), "- {resource: pods}", "")
	eventually(t, "target degraded", func() bool {
		s, err := d.status()
		return err == nil && len(s.Targets) == 1 && s.Targets[0].State == "degraded" && strings.Contains(s.Targets[0].Reason, "connection refused")
	})
	if _, code, err := d.get("/healthz"); err != nil || code != http.StatusOK {
		t.Errorf("liveness %d, %v: an absent API server is no reason to restart", code, err)
	}
	if _, code, err := d.get("/readyz"); err != nil || code == http.StatusOK {
		t.Errorf("readiness %d, %v", code, err)
	}
}

func TestOneBadResourceAndOneDeadSinkHurtNobody(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	user, err := c.AddUser("limited")
	if err != nil {
		t.Fatal(err)
	}
	allowConfigMaps(t, client, "limited")
	kinds := []kind{configMapKind()}
	l := newLedger()
	d := startInformd(t, user.Kubeconfig(), `
		- {resource: configmaps, namespaces: [default]}
		- {resource: pods}
		- {group: none.example.com, resource: things}
		- {resource: nodes, namespaces: [default]}`, fmt.Sprintf(`
		- {name: dead, type: nats, servers: "nats://%s"}
		- {name: unwritable, type: file, path: /nowhere/events}`, freeAddress(t)))
	d.waitForSync(1)
	writeAll(t, client, kinds, l, 60, 1)
	eventually(t, "stream complete", func() bool { return complete(kinds, d.records(), l) })
	check(t, kinds[0], d.records(), l, client, claim{})
	want := map[string]string{
		"core/configmaps@default": "live", "core/pods": "forbidden", "none.example.com/things": "waiting", "core/nodes@default": "degraded",
	}
	eventually(t, "each target in its state, each bad sink with its error", func() bool {
		s, err := d.status()
		got := make(map[string]string)
		for _, target := range s.Targets {
			got[target.Target] = target.State
		}
		for _, sink := range s.Sinks {
			if sink.Name != "all" && sink.LastError == "" {
				return false
			}
		}
		return err == nil && maps.Equal(got, want)
	})
	for _, probe := range []string{"/healthz", "/readyz"} {
		eventually(t, probe, func() bool {
			_, code, err := d.get(probe)
			return err == nil && code == http.StatusOK
		})
	}
	// Granted later, the forbidden resource comes by itself.
	allowPods(t, client, "limited")
	d.waitForSync(2)
}

func TestWrongCredentials(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	config := c.RESTConfig()
	config.BearerToken = "wrong"
	p := startProxy(t, config)
	p.set(func() {})
	d := startInformd(t, p.kubeconfig, "- {resource: configmaps}", "")
	eventually(t, "target degraded", func() bool {
		s, err := d.status()
		return err == nil && len(s.Targets) == 1 && s.Targets[0].State == "degraded" && strings.Contains(s.Targets[0].Reason, "Unauthorized")
	})
}

// TestSignals: the first SIGTERM drains, for as long as there is hope, and the
// second one ends it.
func TestSignals(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	d := startInformd(t, c.Kubeconfig(), "- {resource: namespaces}", "")
	d.waitForSync(1)
	d.stop()
	if d.err != nil {
		t.Errorf("drained informd: %v", d.err)
	}
	d = startInformd(t, c.Kubeconfig(), "- {resource: namespaces}",
		fmt.Sprintf(`- {name: dead, type: nats, servers: "nats://%s"}`, freeAddress(t)))
	d.waitForSync(1)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "draining", func() bool { return strings.Contains(d.stderr.String(), "stopping") })
	select {
	case <-d.exited:
		t.Error("informd did not wait for its sink")
	default:
	}
	began := time.Now()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-d.exited
	if code := d.cmd.ProcessState.ExitCode(); code != 1 || time.Since(began) > 10*time.Second {
		t.Errorf("exit %d after %v", code, time.Since(began))
	}
	if !strings.Contains(d.stderr.String(), "events were not delivered") {
		t.Error("nobody says that events were not delivered")
	}
}

func TestOnce(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	path := writeFile(t, "config.yaml", fmt.Sprintf("kubernetes: {kubeconfig: %q}\nresources: [{resource: namespaces}]\nsinks: [{name: out, type: stdout}]\njournal: {type: memory, dir: %q}\nadmin: {listen: \"\"}\n", c.Kubeconfig(), t.TempDir()))
	stdout, stderr, code := runInformd(t, "run", "--once", "--config", path)
	if code != 0 || !strings.Contains(stdout, `"name":"kube-system"`) || !strings.Contains(stdout, `"op":"synced"`) {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
}
