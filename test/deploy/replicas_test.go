package deploy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/cluster/proc"
)

// patience is how long a test waits.
const patience = 2 * time.Minute

// TestReplicas installs two replicas with the Secret that the commands of deploy/README.md make, and runs
// what the Pods would run: the config of the chart, as its ServiceAccount, with the files of the Secret.
// One leads, the other one copies its log and takes over. Without the Secret nothing is installed.
func TestReplicas(t *testing.T) {
	c := cluster.Start(t, cluster.Options{PodSecurity: true})
	install := func(set string) error {
		_, stderr, err := helm(t, "install", "informd", chart, "--set", set, "--namespace", "informd", "--create-namespace", "--kubeconfig", c.Kubeconfig())
		if err != nil {
			return fmt.Errorf("%w: %s", err, stderr)
		}
		return nil
	}
	if err := install("replicas=2"); err == nil || !strings.Contains(err.Error(), "replicasSecret is empty") {
		t.Errorf("without a Secret: %v", err)
	}
	must(t, install("replicas=2,replicasSecret=informd-replicas"))
	files := documentedSecret(t)
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	config, err := client.CoreV1().ConfigMaps("informd").Get(t.Context(), "informd", metav1.GetOptions{})
	must(t, err)
	text := strings.ReplaceAll(config.Data["config.yaml"], "/etc/informd-replicas", files)
	text += fmt.Sprintf("\nkubernetes: {kubeconfig: %q}\n", asAccount(t, c, client))
	binary := compiled(t, root, runtime.GOARCH, "./cmd/informd")
	first, second := newReplica(t, binary, text, files), newReplica(t, binary, text, files)
	first.start()
	first.waitFor("it leads, and watches", replicaStatus.leads)
	second.start()
	second.waitFor("it has a copy of the log", replicaStatus.follows)
	must(t, first.process.Stop())
	second.waitFor("it leads, and watches", replicaStatus.leads)
	first.start()
	first.waitFor("it has a copy of the log", replicaStatus.follows)
}

// documentedSecret runs the commands of deploy/README.md that make the Secret of replicas, and returns the
// directory with the files of all its keys. kubectl is a function that prints them.
func documentedSecret(t *testing.T) string {
	t.Helper()
	commands := regexp.MustCompile("(?s)```sh\n(openssl .*?)```").FindSubmatch(read(t, "deploy/README.md"))
	if commands == nil {
		t.Fatal("deploy/README.md has no commands that begin with openssl")
	}
	const kubectl = `kubectl() { for a in "$@"; do case $a in --from-file=*) echo "${a#*=}";; esac; done; }` + "\n"
	made, mounted := t.TempDir(), t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", kubectl+string(commands[1]))
	cmd.Dir = made
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, commands[1])
	}
	for name := range strings.FieldsSeq(string(out)) {
		content, err := os.ReadFile(filepath.Join(made, name))
		must(t, err)
		if err := os.WriteFile(filepath.Join(mounted, name), content, 0o440); err != nil { // the mode of the volume
			t.Fatal(err)
		}
	}
	return mounted
}

// asAccount returns a kubeconfig with a token of the ServiceAccount informd.
func asAccount(t *testing.T, c *cluster.Cluster, client kubernetes.Interface) string {
	t.Helper()
	token, err := client.CoreV1().ServiceAccounts("informd").CreateToken(t.Context(), "informd", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": c.RESTConfig().Host, "certificate-authority-data": c.RESTConfig().CAData}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": token.Status.Token}}},
	})
	must(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(file, text, 0o600))
	return file
}

// replica is a process in place of a Pod.
type replica struct {
	t       *testing.T
	process *proc.Process
	client  *http.Client
	url     string
}

// newReplica prepares one with the config of the chart, on a port and in a directory of its own.
func newReplica(t *testing.T, binary, config, files string) *replica {
	t.Helper()
	port, err := proc.FreePort()
	must(t, err)
	t.Cleanup(port.Release)
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	config = strings.NewReplacer("/var/lib/informd", filepath.Join(dir, "journal"), "listen: :8080", fmt.Sprintf("listen: %q", port.Address())).Replace(config)
	must(t, os.WriteFile(file, []byte(config), 0o600))
	certificate, err := os.ReadFile(filepath.Join(files, "tls.crt"))
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	r := &replica{t: t, url: "https://" + port.Address(), client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "informd-0.informd.informd.svc"},
	}}}
	r.process = proc.New(proc.Spec{
		Name: "informd", Path: "/usr/bin/env", Args: []string{"INFORMD_REPLICAS_ADDRESS=" + port.Address(), binary, "run", "--config", file},
		Log: filepath.Join(dir, "log"), Ready: func(ctx context.Context) error { _, err := r.status(ctx); return err },
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("informd's log:\n%s", r.process.LogTail())
		}
		if err := r.process.Kill(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *replica) start() {
	r.t.Helper()
	must(r.t, r.process.Start(r.t.Context()))
}

// replicaStatus is what a replica says of itself.
type replicaStatus struct {
	Follower     *struct{ InSync bool }
	TargetStates map[string]int
}

func (s replicaStatus) leads() bool   { return s.Follower == nil && s.TargetStates["live"] > 0 }
func (s replicaStatus) follows() bool { return s.Follower != nil && s.Follower.InSync }

// status asks over TLS, as Prometheus would.
func (r *replica) status(ctx context.Context) (s replicaStatus, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/status", nil)
	if err != nil {
		return s, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	return s, json.NewDecoder(response.Body).Decode(&s)
}

// waitFor waits until a replica says something of itself.
func (r *replica) waitFor(what string, is func(replicaStatus) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		s, err := r.status(ctx)
		if err == nil && is(s) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			r.t.Fatalf("%s: %+v, %v", what, s, err)
		}
	}
}
