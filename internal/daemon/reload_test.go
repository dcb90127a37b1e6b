package daemon

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/informd/informd/internal/config"
)

// TestReloadOfAFileThatReturns: the file is missing when the reload checks it, and back when the
// reload reads it. The reload knows the content that it has read.
func TestReloadOfAFileThatReturns(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
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
}
