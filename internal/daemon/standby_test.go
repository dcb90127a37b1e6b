package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/lease"
	"github.com/informd/informd/pkg/sink"
)

// probes are sinks that take everything. They note where they are opened.
type probes struct {
	mu     sync.Mutex
	opened []string
}

// probe is the config of such a sink.
type probe struct {
	URL   string `yaml:"url"`
	all   *probes
	write writeFunc
}

func (p *probe) Validate() []sink.Problem { return nil }

func (p *probe) Open(context.Context, sink.Env) (sink.Sink, error) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.all.opened = append(p.all.opened, p.URL)
	return p.write, nil
}

func (p *probes) urls() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.opened)
}

// started runs a daemon, with a config file that write replaces, until stop is called.
func (p *probes) started(t *testing.T, text string, write writeFunc) (d *Daemon, replace func(text string), stop func() error) {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	put(kubeconfig, `{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}], "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}]}`)
	path := filepath.Join(dir, "config.yaml")
	replace = func(text string) {
		t.Helper()
		put(path, fmt.Sprintf("cluster: test\nkubernetes: {kubeconfig: %s}\nadmin: {listen: \"\", socket: %s}\n%s", kubeconfig, filepath.Join(dir, "admin.sock"), text))
	}
	replace(text)
	load := func() (*config.Config, error) {
		return configfile.Load(configfile.Source{Path: path, Drivers: []sink.Driver{{
			Type: "probe", Lanes: 1, New: func() sink.Config { return &probe{all: p, write: write} },
		}}})
	}
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if d, err = New(Options{Config: c, Load: load, Stdout: io.Discard, Stderr: t.Output()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, context.WithoutCancel(ctx)) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return d, replace, stop
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.After(time.Minute); !condition(); {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// held returns the address of a NATS server where another informd has the lease of the journal,
// and a function that releases it.
func held(t *testing.T) (url string, release func()) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 16 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	l, err := lease.Acquire(t.Context(), conn, lease.Options{Bucket: "INFORMD_LEASE", Key: "writer.test", Holder: "active", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s.ClientURL(), func() {
		if err := l.Release(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

func takesAll(_ context.Context, batch []event.Event) (int, error) { return len(batch), nil }

// TestTakeoverUsesTheConfigOfNow: a standby follows its config file as the active informd does. It
// takes over with the last valid config, and never opens a sink of an earlier one.
func TestTakeoverUsesTheConfigOfNow(t *testing.T) {
	url, release := held(t)
	text := func(resource, to string) string {
		return fmt.Sprintf("resources: [%s]\njournal: {type: nats, servers: [%q], maxBytes: 64MiB}\nsinks: [{name: hook, type: probe, url: %s}]\n", resource, url, to)
	}
	var sinks probes
	d, replace, stop := sinks.started(t, text("pods", "old"), takesAll)
	eventually(t, "informd is the standby", func() bool { return d.standby() == "active" })
	started := d.reloads.status("").LastReload
	replace(text("services", "new"))
	eventually(t, "the standby has read the new config", func() bool { return d.reloads.status("").LastReload.After(started) })
	if _, err := (operator{d}).Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "active is active") {
		t.Errorf("a request to reload: %v", err)
	}
	for name, refused := range map[string]string{
		"invalid":         "resorces: []\n",
		"needs a restart": strings.Replace(text("nodes", "other"), "64MiB", "32MiB", 1),
	} {
		replace(refused)
		eventually(t, name+": an error of the standby", func() bool { return !d.reloads.status("").Successful })
		replace(text("services", "new"))
		eventually(t, name+": the file is valid again", func() bool { return d.reloads.status("").Successful })
	}
	replace("resorces: []\n")
	release()
	eventually(t, "a sink is open", func() bool { return len(sinks.urls()) > 0 })
	eventually(t, "a target", func() bool { return len(d.targets()) > 0 })
	if all := d.targets(); len(all) != 1 || all[0].Target != "core/services" {
		t.Errorf("targets %+v, want core/services", all)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := sinks.urls(); !slices.Equal(got, []string{"new"}) {
		t.Errorf("opened %q, want only the sink of the last valid config", got)
	}
}

// TestTakeoverReadsTheConfig: an edit just before the takeover counts as well.
func TestTakeoverReadsTheConfig(t *testing.T) {
	url, release := held(t)
	text := func(to string) string {
		return fmt.Sprintf("resources: [pods]\njournal: {type: nats, servers: [%q], maxBytes: 64MiB}\nsinks: [{name: hook, type: probe, url: %s}]\n", url, to)
	}
	var sinks probes
	d, replace, stop := sinks.started(t, text("old"), takesAll)
	eventually(t, "informd is the standby", func() bool { return d.standby() == "active" })
	replace(text("new"))
	release()
	eventually(t, "a sink is open", func() bool { return len(sinks.urls()) > 0 })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := sinks.urls(); !slices.Equal(got, []string{"new"}) {
		t.Errorf("opened %q, want only the sink of the new config", got)
	}
}
