package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/informer/informertest"
	"github.com/informd/informd/pkg/sink/drivers"
)

// tokenAPI is a fake API server that one token opens.
type tokenAPI struct {
	*informertest.Cluster

	token atomic.Pointer[string]
}

func (a *tokenAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "Bearer "+*a.token.Load() {
		return &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody, Request: r}, nil
	}
	return a.Cluster.RoundTrip(r)
}

// tokenRig is an informd whose kubeconfig has a token.
type tokenRig struct {
	t           *testing.T
	api         *tokenAPI
	server      string
	dir         string
	config      *config.Config
	events, log logBuffer
}

func newTokenRig(t *testing.T, journal string) *tokenRig {
	t.Helper()
	r := &tokenRig{t: t, api: &tokenAPI{Cluster: informertest.New()}, dir: t.TempDir()}
	r.api.Put(`{"kind":"Namespace","metadata":{"name":"kube-system"}}`)
	r.api.Put(`{"kind":"Pod","metadata":{"namespace":"shop","name":"a"}}`)
	server := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: r.api, FlushInterval: -1,
	})
	t.Cleanup(server.Close)
	r.server = server.URL
	r.allow("first")
	r.kubeconfig("first")
	text := fmt.Sprintf(`cluster: test
kubernetes: {kubeconfig: %q}
resources: [pods]
sinks: [{name: out, type: stdout}]
journal: {type: %s, dir: %q}
admin: {listen: "", socket: ""}
`, r.path(), journal, filepath.Join(r.dir, "journal"))
	var err error
	if r.config, err = configfile.Parse("config.yaml", []byte(text), drivers.All()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *tokenRig) path() string { return filepath.Join(r.dir, "kubeconfig") }

func (r *tokenRig) allow(token string) { r.api.token.Store(&token) }

// kubeconfig writes it with a token, which client-go sends over TLS only.
func (r *tokenRig) kubeconfig(token string) {
	r.t.Helper()
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}],
clusters: [{name: x, cluster: {server: %q, insecure-skip-tls-verify: true}}],
users: [{name: x, user: {token: %s}}]}`, r.server, token)
	r.write(content)
}

func (r *tokenRig) write(content string) {
	r.t.Helper()
	if err := os.WriteFile(r.path(), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// run runs a daemon until stop is called. Ended has the error of its Run.
func (r *tokenRig) run() (stop context.CancelFunc, ended <-chan error) {
	r.t.Helper()
	d, err := New(Options{Config: r.config, Stdout: &r.events, Stderr: &r.log})
	if err != nil {
		r.t.Fatal(err)
	}
	d.kubeconfigInterval = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx, context.WithoutCancel(ctx)) }()
	return cancel, done
}

func (r *tokenRig) logged(text string) {
	r.t.Helper()
	eventually(r.t, "the log has "+text, func() bool { return strings.Contains(r.log.String(), text) })
}

func (r *tokenRig) has(text string) {
	r.t.Helper()
	eventually(r.t, "an event has "+text, func() bool { return strings.Contains(r.events.String(), text) })
}

// TestKubeconfigChanged: a run ends when the kubeconfig has other credentials, and the next one uses them and repeats
// nothing. A kubeconfig that cannot be used, also because of a bad certificate, changes nothing. Another server, as after
// a change of the current context, changes nothing either.
func TestKubeconfigChanged(t *testing.T) {
	r := newTokenRig(t, "log")
	_, ended := r.run()
	r.has(`"op":"synced"`)
	r.write(fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x,
contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: %q}}],
users: [{name: x, user: {client-certificate-data: bm9uZQ==, client-key-data: bm9uZQ==}}]}`, r.server))
	r.logged("kubeconfig not usable")
	r.write("{")
	eventually(t, "the second one is not usable either", func() bool {
		return strings.Count(r.log.String(), "kubeconfig not usable") == 2
	})
	server := r.server
	r.server = "https://127.0.0.1:1"
	r.kubeconfig("first")
	r.logged("server_in_use=" + server)
	r.server = server
	r.allow("second")
	r.kubeconfig("second")
	if err := <-ended; !errors.Is(err, ErrKubeconfigChanged) {
		t.Fatalf("the run ended with %v", err)
	}
	stop, ended := r.run()
	r.api.Put(`{"kind":"Pod","metadata":{"namespace":"shop","name":"b"}}`)
	r.has(`"name":"b"`)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the second run ended with %v", err)
	}
	if n := strings.Count(r.events.String(), `"subject":"core/pods/shop/a"`); n != 1 {
		t.Errorf("%d events of the object that did not change, want 1:\n%s", n, r.events.String())
	}
}

// TestKubeconfigChangedWithMemory: what a memory journal has would end with the run, which goes on.
func TestKubeconfigChangedWithMemory(t *testing.T) {
	r := newTokenRig(t, "memory")
	stop, ended := r.run()
	r.has(`"op":"synced"`)
	r.kubeconfig("second")
	r.logged("restart informd")
	r.api.Put(`{"kind":"Pod","metadata":{"namespace":"shop","name":"b"}}`)
	r.has(`"name":"b"`)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the run ended with %v", err)
	}
}

// TestSameClient: what client-go follows by itself is no change, and everything else is one.
func TestSameClient(t *testing.T) {
	of := func(token, file string) *rest.Config { return &rest.Config{BearerToken: token, BearerTokenFile: file} }
	for name, c := range map[string]struct {
		a, b *rest.Config
		want bool
	}{
		"a token":                {of("a", ""), of("b", ""), false},
		"a token in a file":      {of("a", "token"), of("b", "token"), true},
		"another file":           {of("a", "token"), of("a", "other"), false},
		"a file instead of none": {of("a", ""), of("a", "token"), false},
	} {
		if got := sameClient(c.a, c.b); got != c.want {
			t.Errorf("%s: the same is %t", name, got)
		}
	}
}
