package binary

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// tiny is a recipe that builds in seconds.
func tiny(version string) recipe {
	return recipe{
		name:     "tiny",
		pkg:      "./cluster/build",
		ldflags:  "-s -w",
		duration: "moment",
		inputs: func(_ string, to io.Writer) error {
			_, err := fmt.Fprint(to, version)
			return err
		},
	}
}

func TestBuildsOnceAndAgainAfterAChange(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(cacheEnv, cache)
	var wg sync.WaitGroup
	paths := make([]string, 3)
	for i := range paths {
		wg.Go(func() {
			var err error
			if paths[i], err = tiny("1").get(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if paths[0] != paths[1] || paths[1] != paths[2] {
		t.Errorf("different entries for the same inputs: %v", paths)
	}
	old := time.Now().Add(-2 * unusedFor)
	if err := os.Chtimes(paths[0], old, old); err != nil {
		t.Fatal(err)
	}
	changed, err := tiny("2").get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	entries, err := filepath.Glob(filepath.Join(cache, "tiny*"))
	if err != nil {
		t.Fatal(err)
	}
	// The entry of the first version was long unused, so the build removed it.
	if want := fmt.Sprint([]string{changed, filepath.Join(cache, "tiny.lock")}); fmt.Sprint(entries) != want {
		t.Errorf("cache holds %v, want %s", entries, want)
	}
}

func TestFailedBuildLeavesNoEntry(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(cacheEnv, cache)
	broken := tiny("1")
	broken.pkg = "./no/such/package"
	if _, err := broken.get(t.Context()); err == nil || !strings.Contains(err.Error(), "no/such/package") {
		t.Errorf("error does not say what failed: %v", err)
	}
	if entries := broken.entries(cache); len(entries) != 0 {
		t.Errorf("cache holds %v", entries)
	}
}

func TestWithoutAHomeTheErrorNamesTheWayOut(t *testing.T) {
	for _, name := range []string{cacheEnv, "HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	_, err := NATSServer(context.WithoutCancel(t.Context()))
	if err == nil || !strings.Contains(err.Error(), cacheEnv) {
		t.Errorf("error does not name %s: %v", cacheEnv, err)
	}
}

func TestKeysDifferByProgramAndCoverTheSources(t *testing.T) {
	module, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	var inputs strings.Builder
	if err := controlPlaneInputs(module, &inputs); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"go.mod ", "go.sum ", "controlplane/main.go ", "cluster/cluster.go ", "cluster/proc/process.go "} {
		if !strings.Contains(inputs.String(), file) {
			t.Errorf("inputs of the control plane lack %s", file)
		}
	}
	var nats strings.Builder
	if err := natsInputs(module, &nats); err != nil || !strings.Contains(nats.String(), natsModulePath+" v2.") {
		t.Errorf("inputs of nats-server: %q, %v", nats.String(), err)
	}
}
