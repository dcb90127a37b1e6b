package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// discoveryServer is an API server that has discovery alone.
func discoveryServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	resource := func(name, kind string, verbs ...string) map[string]any {
		return map[string]any{"resource": name, "scope": "Namespaced", "responseKind": map[string]any{"kind": kind}, "verbs": verbs}
	}
	group := func(name string, resources ...map[string]any) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": name}, "versions": []any{map[string]any{"version": "v1", "resources": resources}}}
	}
	documents := map[string]map[string]any{
		"/api":  group("", resource("pods", "Pod", "list", "watch"), resource("configmaps", "ConfigMap", "list", "watch"), resource("bindings", "Binding", "create")),
		"/apis": group("apps", resource("deployments", "Deployment", "list", "watch")),
	}
	address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document, ok := documents[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		list := map[string]any{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": []any{document}}
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	write(t, kubeconfig, fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: dev@home
contexts: [{name: dev@home, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "http://%s"}}]
`, address))
	return kubeconfig
}

// person answers questions.
type person struct{ *strings.Reader }

func (person) Interactive() bool { return true }

// TestInit: the config that init writes validates, and the manifest is its permissions;
// files that exist stay.
func TestInit(t *testing.T) {
	kubeconfig := discoveryServer(t)
	for name, test := range map[string]struct {
		args    []string
		answers string // of a person; "" is no terminal
		want    []string
		asks    []string
	}{
		"flags": {
			args: []string{"--resources", "pods,apps/deployments,pods"},
			want: []string{"resources: 2, sinks: 1", "cluster: \"dev-home\"", "type: stdout"},
		},
		"nats": {
			args: []string{"--resources", "deployments", "--sink", "nats", "--set", "servers=[nats://a:4222, nats://b:4222]", "--set", "create={maxBytes: 10GiB}", "--cluster", "prod"},
			want: []string{"resources: 1, sinks: 1", "  - deployments.apps\n", "cluster: \"prod\"", "type: nats", "a:4222", "b:4222", "create: {maxBytes"},
		},
		"wildcard": {args: []string{"--resources", "*.apps,configmaps"}, want: []string{"resources: 2, sinks: 1"}},
		"answers": {
			answers: "pod\npods, configmaps\nhook\npostgres\npg:5432\n{username: informd}\n\ninventory\nprod\n",
			want:    []string{"resources: 2, sinks: 1", "cluster: \"prod\"", "type: postgres", "servers: pg:5432", "auth: {username: informd}", "database: inventory"},
			asks:    []string{"serves 3 resources", `did you mean "pods"?`, `--sink "hook"`, "servers is required: ", "there is no default"},
		},
		"defaults": {answers: "\n\n\n", want: []string{"resources: 2, sinks: 1", "cluster: \"dev-home\"", "type: stdout"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			args := append([]string{"init", "--kubeconfig", kubeconfig}, test.args...)
			var out, errs screen
			std := streams{in: strings.NewReader(""), out: &out, err: &errs, program: standard()}
			if test.answers != "" {
				std.in = person{strings.NewReader(test.answers)}
			}
			if code := execute(t.Context(), args, std); code != exitOK {
				t.Fatalf("exit %d\n%s", code, errs.String())
			}
			for _, want := range test.asks {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("no %q in\n%s", want, errs.String())
				}
			}
			config, err := os.ReadFile("config.yaml")
			if err != nil {
				t.Fatal(err)
			}
			var valid, wrong screen
			if code := run(t.Context(), []string{"validate"}, &valid, &wrong); code != exitOK || wrong.String() != "" && !strings.Contains(wrong.String(), "events cross the network") {
				t.Errorf("validate: exit %d\n%s\n%s", code, wrong.String(), config)
			}
			for _, want := range test.want {
				if !strings.Contains(valid.String()+string(config), want) {
					t.Errorf("no %q in\n%s\n%s", want, valid.String(), config)
				}
			}
			manifest, err := os.ReadFile("rbac.yaml")
			if err != nil {
				t.Fatal(err)
			}
			var printed screen
			if code := run(t.Context(), []string{"rbac"}, &printed, &wrong); code != exitOK || printed.String() != string(manifest) {
				t.Errorf("rbac.yaml is not what informd rbac prints:\n%s", manifest)
			}
			if code := execute(t.Context(), append(args, "--resources", "pods"), streams{in: std.in, out: &out, err: &errs, program: standard()}); code != exitUsage || !strings.Contains(errs.String(), "--force") {
				t.Errorf("a second init: exit %d\n%s", code, errs.String())
			}
			if again, err := os.ReadFile("config.yaml"); err != nil || string(again) != string(config) {
				t.Errorf("%v, the second init changed the config", err)
			}
			if left, _ := filepath.Glob(".informd-init-*"); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// TestInitSinks: init writes a config with a sink of any type that the program has.
func TestInitSinks(t *testing.T) {
	kubeconfig := discoveryServer(t)
	required := map[string][]string{
		"exec": {"command=[cat]"}, "file": {"path=events.ndjson"}, "kafka": {"servers=[kafka:9092]", "topic=k8s"}, "nats": {"servers=nats://nats:4222"},
		"otlp": {"url=https://collector:4318"}, "postgres": {"servers=pg:5432", "auth={username: informd}", "database=inventory"}, "stdout": nil,
		"webhook": {`url="https://example.com/events"`},
	}
	for _, name := range sinkTypes(standard().Drivers) {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			args := []string{"init", "--kubeconfig", kubeconfig, "--resources", "pods", "--cluster", "prod", "--sink", name}
			for _, option := range required[name] {
				args = append(args, "--set", option)
			}
			var out, errs screen
			if code := run(t.Context(), args, &out, &errs); code != exitOK {
				t.Fatalf("exit %d\n%s", code, errs.String())
			}
			if code := run(t.Context(), []string{"validate"}, &out, &errs); code != exitOK {
				t.Errorf("validate: exit %d\n%s", code, errs.String())
			}
		})
	}
}

// TestInitRefuses: mistakes leave no file.
func TestInitRefuses(t *testing.T) {
	kubeconfig := discoveryServer(t)
	t.Chdir(t.TempDir())
	k3s := filepath.Join(t.TempDir(), "kubeconfig")
	config, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	write(t, k3s, strings.ReplaceAll(string(config), "dev@home", "default"))
	for says, args := range map[string][]string{
		"init needs --cluster":                  {"--resources", "pods", "--sink", "nats", "--set", "servers=nats:4222", "--kubeconfig", k3s},
		"init needs --resources":                nil,
		`"bindings"`:                            {"--resources", "bindings"},
		`did you mean "deployments.apps"?`:      {"--resources", "deployment.apps"},
		`--sink "hook": it must be exec, file,`: {"--resources", "pods", "--sink", "hook"},
		"needs --set url=<value>":               {"--resources", "pods", "--sink", "webhook"},
		"it must be key=value":                  {"--resources", "pods", "--set", "url"},
		`--name "A"`:                            {"--resources", "pods", "--name", "A"},
		"name the same file x.yaml":             {"--resources", "pods", "-c", "x.yaml", "--rbac", "./x.yaml"},
		"name the same file y.yaml":             {"--resources", "pods", "-c", "y.yaml", "--rbac", "y.yaml", "--force"},
	} {
		var out, errs screen
		code := execute(t.Context(), append([]string{"init", "--kubeconfig", kubeconfig}, args...), streams{in: strings.NewReader(""), out: &out, err: &errs, program: standard()})
		if code != exitUsage || !strings.Contains(errs.String(), says) {
			t.Errorf("%q: exit %d, want %q in\n%s", args, code, says, errs.String())
		}
	}
	var out, errs screen
	if code := execute(t.Context(), []string{"init", "--resources", "pods", "--kubeconfig", "none"}, streams{in: strings.NewReader(""), out: &out, err: &errs, program: standard()}); code != exitFailure {
		t.Errorf("without an API server: exit %d\n%s", code, errs.String())
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("%v, left: %v", err, files)
	}
}

// TestInitKeepsLinks: with --force, a config behind a symbolic link is replaced, and the link
// stays. The manifest must not be the same file by another name.
func TestInitKeepsLinks(t *testing.T) {
	kubeconfig := discoveryServer(t)
	t.Chdir(t.TempDir())
	shared := filepath.Join(t.TempDir(), "shared.yaml")
	write(t, shared, "old")
	if err := os.Symlink(shared, "config.yaml"); err != nil {
		t.Fatal(err)
	}
	var out, errs screen
	args := []string{"init", "--kubeconfig", kubeconfig, "--resources", "pods", "--force"}
	if code := execute(t.Context(), args, streams{in: strings.NewReader(""), out: &out, err: &errs, program: standard()}); code != 0 {
		t.Fatalf("exit %d\n%s", code, errs.String())
	}
	if to, err := os.Readlink("config.yaml"); err != nil || to != shared {
		t.Errorf("config.yaml leads to %q (%v), want %s", to, err, shared)
	}
	if content, err := os.ReadFile(shared); err != nil || !strings.Contains(string(content), "pods") {
		t.Errorf("%v, the config is %q", err, content)
	}
	if code := execute(t.Context(), append(args, "--rbac", shared), streams{in: strings.NewReader(""), out: &out, err: &errs, program: standard()}); code != exitUsage || !strings.Contains(errs.String(), "name the same file") {
		t.Errorf("the manifest in place of the config: exit %d\n%s", code, errs.String())
	}
}

// TestConfirm: a destructive command asks a person, and any answer but yes ends it.
func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "\n": false, "no\n": false, "": false} {
		var shown screen
		err := confirm(streams{in: person{strings.NewReader(answer)}, err: &shown}, "Drop everything?")
		if (err == nil) != want || shown.String() != "Drop everything? [y/N] " {
			t.Errorf("%q: %v after %q", answer, err, shown.String())
		}
	}
}
