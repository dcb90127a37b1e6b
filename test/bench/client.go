package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/test/bench/progress"
	"github.com/informd/informd/test/cluster/proc"
)

// kind is a kind of client.
type kind string

const (
	informd       kind = "informd"
	informdAtOnce kind = "informd, maxDelay: 0"
	informdMemory kind = "informd, memory journal"
	baseline      kind = "baseline"
	floor         kind = "floor"
)

// handled is how many events a client is done with.
type handled struct {
	objects, updates int64
	// mallocs are the allocations of the process, 0 if it does not say.
	mallocs float64
}

// client is a process under measurement.
type client struct {
	*child
	kind    kind
	address string
	port    *proc.Port
	count   func(ctx context.Context) (handled, error)
}

// setup is what a client runs with.
type setup struct {
	server *server
	sink   sinkSpec
	// cores is GOMAXPROCS and how many CPUs the client is kept on; 0: no limit.
	cores  int
	stdout *os.File
	env    []string
	// journalDir is that of informd's journal; empty: a new one.
	journalDir string
	// lease makes informd one of a pair.
	lease string
	// maxDelay replaces informd's default.
	maxDelay string
	// resources replaces informd's list of resources.
	resources string
}

func (b *bench) startClient(k kind, s setup) (*client, error) {
	port, err := proc.FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "client-")
	if err != nil {
		return nil, err
	}
	c := &client{kind: k, port: port, address: port.Address()}
	l := launch{stdout: s.stdout, env: s.env, log: filepath.Join(dir, "log")}
	if s.cores > 0 {
		l.env, l.cpus = append(l.env, "GOMAXPROCS="+strconv.Itoa(s.cores)), b.clientCPUs
	}
	c.count = func(ctx context.Context) (h handled, err error) {
		h.objects, h.updates, err = progress.Read(ctx, c.address)
		return h, err
	}
	common := []string{"-kubeconfig", s.server.kubeconfig(), "-listen", c.address}
	switch k {
	case informd, informdAtOnce, informdMemory:
		if k == informdAtOnce {
			s.maxDelay = "0s"
		}
		config := filepath.Join(dir, "config.yaml")
		sink, err := s.sink.informd()
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(config, []byte(informdConfig(s, sink, journalOf(k), cmp.Or(s.journalDir, dir), c.address)), 0o600); err != nil {
			return nil, err
		}
		l.path, l.args = b.informd, []string{"run", "--config", config}
		c.count = c.countInformd
	case floor:
		l.path, l.args = b.floor, common
	case baseline:
		l.path, l.args = b.baseline, append(common, "-sink", string(s.sink.kind), "-url", s.sink.url)
	}
	c.child, err = start(l)
	return c, err
}

func (c *client) end() error {
	defer c.port.Release()
	return c.stop()
}

// journalOf is the type of the journal in informd's config.
func journalOf(k kind) string {
	if k == informdMemory {
		return "memory"
	}
	return "log"
}

// informdConfig is what an operator would write, with one sink.
func informdConfig(s setup, sink, journal, dir, admin string) string {
	resources := cmp.Or(s.resources, "  - {resource: pods}")
	kubernetes := fmt.Sprintf("kubeconfig: %q", s.server.kubeconfig())
	if s.maxDelay != "" {
		kubernetes += ", maxDelay: " + s.maxDelay
	}
	replicas := ""
	if s.lease != "" {
		replicas = fmt.Sprintf("replicas: {lease: %s, namespace: default}\n", s.lease)
	}
	return fmt.Sprintf("cluster: bench\nkubernetes: {%s}\nresources:\n%s\njournal: {type: %s, dir: %q}\nsinks:\n  - %s\nadmin: {listen: %q}\nlog: {level: warn}\n%s",
		kubernetes, resources, journal, dir, sink, admin, replicas)
}

// countInformd reads informd's own metrics. What the sink has not been offered yet is
// not handled.
func (c *client) countInformd(ctx context.Context) (handled, error) {
	metrics, err := scrape(ctx, c.address)
	if err != nil {
		return handled{}, err
	}
	var h handled
	var passed float64
	for series, value := range metrics {
		switch {
		case strings.HasPrefix(series, `informd_target_events_total{op="snapshot"`), strings.HasPrefix(series, `informd_target_events_total{op="added"`):
			h.objects += int64(value)
		case strings.HasPrefix(series, `informd_target_events_total{op="modified"`):
			h.updates += int64(value)
		case strings.HasPrefix(series, `informd_sink_events_total{`):
			passed += value
		case series == "go_memstats_mallocs_total":
			h.mallocs = value
		}
	}
	if all := h.objects + h.updates; int64(passed) < all {
		h.updates -= all - int64(passed)
	}
	return h, nil
}

// scrape reads the metrics of an informd.
func scrape(ctx context.Context, address string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	web := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	response, err := web.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	metrics := make(map[string]float64)
	for line := range strings.Lines(string(text)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok {
			series, value, ok = strings.Cut(strings.TrimSpace(line), " ")
		} else {
			series += "}"
		}
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(line, "#") {
			metrics[series] = n
		}
	}
	return metrics, nil
}
