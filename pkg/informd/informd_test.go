package informd_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/informer/informertest"
	"github.com/informd/informd/schema"
)

// program runs the test binary as a program. It returns what it printed and its exit code.
func program(t *testing.T, name string, args ...string) (output string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "INFORMD_TEST_PROGRAM="+name)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// apiServer serves one ConfigMap.
func apiServer(t *testing.T) (address string) {
	t.Helper()
	cluster := informertest.New()
	cluster.Put(`{"kind":"Namespace","metadata":{"name":"kube-system"}}`)
	cluster.Put(`{"kind":"ConfigMap","metadata":{"namespace":"shop","name":"prices"},"data":{"a":"b"}}`)
	server := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: cluster})
	t.Cleanup(server.Close)
	return server.URL
}

// config writes a config with a sink of the new type, and a kubeconfig.
func config(t *testing.T, address, options string) (path string) {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	path = filepath.Join(dir, "config.yaml")
	for file, text := range map[string]string{
		kubeconfig: "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: " + address + "}}]\n",
		path:       "kubernetes: {kubeconfig: " + kubeconfig + "}\nresources: [configmaps]\nsinks: [{name: out, type: greeting" + options + "}]\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestOwnSinkType: the config takes the type, its mistakes have a line, and the sink gets
// the objects of the cluster.
func TestOwnSinkType(t *testing.T) {
	address := apiServer(t)
	if output, code := program(t, "greeter", "validate", "-c", config(t, address, "")); code != 2 || !strings.Contains(output, "config.yaml:3:9: sinks[0].word: is required: a word of your choice") {
		t.Errorf("without its key: exit %d: %s", code, output)
	}
	good := config(t, address, ", word: Hello")
	output, code := program(t, "greeter", "run", "--once", "-c", good)
	if code != 0 || !strings.Contains(output, "Hello snapshot: core/configmaps/shop/prices\n") {
		t.Errorf("run: exit %d: %s", code, output)
	}
	if output, code := program(t, "informd", "validate", "-c", good); code != 2 || !strings.Contains(output, `"greeting"`) {
		t.Errorf("informd itself: exit %d: %s", code, output)
	}
	if output, code := program(t, "alone", "validate", "-c", good); code != 0 {
		t.Errorf("with no other type: exit %d: %s", code, output)
	}
}

// TestExplainOwnSinkType: explain and the schema have the keys of the program's types, and of no others.
func TestExplainOwnSinkType(t *testing.T) {
	for _, c := range []struct{ program, key, want, lacks string }{
		{"greeter", "sinks.greeting.word", "What the sink says first.", ""},
		{"greeter", "sinks.webhook.url", "url is the address of the endpoint", ""},
		{"greeter", "sinks.type", "webhook, greeting", ""},
		{"alone", "sinks.type", "VALUES   greeting\n", "webhook"},
		{"informd", "sinks.type", "webhook", "greeting"},
	} {
		output, code := program(t, c.program, "explain", c.key)
		if code != 0 || !strings.Contains(output, c.want) || c.lacks != "" && strings.Contains(output, c.lacks) {
			t.Errorf("%s explain %s: exit %d, want %q and no %q: %s", c.program, c.key, code, c.want, c.lacks, output)
		}
	}
	output, code := program(t, "alone", "schema", "config")
	_, greeting, ok := strings.Cut(output, `"const": "greeting"`)
	if code != 0 || !json.Valid([]byte(output)) || !ok || strings.Contains(output, `"const": "nats"`) {
		t.Errorf("schema: exit %d: %.300s", code, output)
	}
	// Its keys, and which of them are required.
	for _, want := range []string{`"description": "What the sink says first."`, `"required":["word"]`} {
		if compact := strings.Join(strings.Fields(greeting), ""); !strings.Contains(compact, strings.Join(strings.Fields(want), "")) {
			t.Errorf("the schema of a greeting sink has no %s: %s", want, greeting)
		}
	}
	if output, code = program(t, "informd", "schema", "config"); code != 0 || output != string(schema.Config()) {
		t.Errorf("the schema of informd is not the shipped one, exit %d", code)
	}
}

// TestNameAndVersion: they show where users see which program it is.
func TestNameAndVersion(t *testing.T) {
	for _, c := range []struct {
		program string
		args    []string
		code    int
		want    string
	}{
		{"greeter", []string{"version"}, 0, "greeter 1.0.0 "},
		{"greeter", []string{"nonsense"}, 2, "Try 'greeter --help'."},
		{"informd", []string{"version"}, 0, "informd unknown "},
		{"informd", []string{"nonsense"}, 2, "informd: unknown command"},
	} {
		output, code := program(t, c.program, c.args...)
		if code != c.code || !strings.Contains(output, c.want) {
			t.Errorf("%s %q: exit %d, want %d with %q: %s", c.program, c.args, code, c.code, c.want, output)
		}
	}
}
