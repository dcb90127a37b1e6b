package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/event"
)

// TestStopDuringAReload: informd is to stop while a reload waits for a sink that hangs in a write. The
// grace period is for the sinks, so the reload does not wait longer.
func TestStopDuringAReload(t *testing.T) {
	writing, hung := make(chan struct{}, 1), make(chan struct{})
	d, p := podsTo(t, func(_ context.Context, batch []event.Event) (int, error) {
		writing <- struct{}{}
		<-hung
		return len(batch), nil
	})
	defer close(hung)
	d.reloads = newReloads(func() (*config.Config, error) {
		return &config.Config{Resources: []config.Resource{{Resource: "pods"}}}, nil
	}, d.config, d.logger)
	pod := event.Event{ID: "1", Op: event.Added, Cluster: "test", Target: "core/pods", Version: "v1", Resource: "pods", Kind: "Pod", Name: "a", UID: "a", ResourceVersion: 1, Data: []byte(`{"object":{}}`)}
	must(t, p.store.Append(t.Context(), []event.Event{pod}))
	<-writing
	reloaded := make(chan error, 1)
	go func() { reloaded <- d.Reload(context.WithoutCancel(t.Context())) }()
	eventually(t, "the reload removes the sink", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.leaving) > 0
	})
	began := time.Now()
	d.reloads.close()
	if took := time.Since(began); took > changeTimeout/2 {
		t.Errorf("stop waited %v for the reload", took)
	}
	if err := <-reloaded; err != nil {
		t.Error(err)
	}
	if err := d.Reload(t.Context()); err == nil {
		t.Error("a reload of an informd that stops")
	}
	// Beside the sink that returns while it hangs, no other one gets a cursor, which would stay in the journal.
	c, err := p.prepare(d, &config.Config{Sinks: []config.Sink{{Name: "new"}, {Name: "out"}}})
	if err == nil || len(c.added) > 0 {
		t.Errorf("added sinks %v, %v", names(c.added), err)
	}
}

// TestReloadOfAFileThatReturns: the file is missing when the reload checks it, and back when the
// reload reads it. The reload knows the content that it has read, and the log says that it needs a restart.
func TestReloadOfAFileThatReturns(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	was, next := &config.Config{Path: filepath.Join(t.TempDir(), "missing.yaml"), Cluster: "a"}, &config.Config{Cluster: "b", Sum: [32]byte{1}}
	d := &Daemon{config: was, logger: logger}
	d.reloads = newReloads(func() (*config.Config, error) { return next, nil }, was, logger)
	d.pipeline.Store(&pipeline{})
	if err := d.Reload(t.Context()); err == nil {
		t.Fatal("the name of the cluster changed")
	}
	if !d.reloads.knows(content{sum: next.Sum}) {
		t.Error("informd would reload the same content again")
	}
	if !strings.Contains(log.String(), "restart informd") || strings.Contains(log.String(), "correct the file") {
		t.Errorf("the log is\n%s", log.String())
	}
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
