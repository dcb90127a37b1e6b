package binary

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const tinySource = "package main\n\nfunc main() {}\n"

// tiny is a recipe that builds in seconds.
func tiny() recipe {
	return recipe{name: "tiny", pkg: "./tiny", ldflags: "-s -w", duration: "moment"}
}

// tinyModule writes a module with the program of tiny.
func tinyModule(t *testing.T) string {
	t.Helper()
	module := t.TempDir()
	write(t, filepath.Join(module, "go.mod"), "module example.com/tiny\n\ngo 1.26\n")
	write(t, filepath.Join(module, "go.sum"), "")
	write(t, filepath.Join(module, "tiny", "main.go"), tinySource)
	return module
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestBuildsOnceAndAgainAfterAChange(t *testing.T) {
	module, cache := tinyModule(t), t.TempDir()
	var wg sync.WaitGroup
	paths := make([]string, 3)
	for i := range paths {
		wg.Go(func() {
			var err error
			if paths[i], err = tiny().find(t.Context(), module, cache); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if paths[0] != paths[1] || paths[1] != paths[2] {
		t.Errorf("different entries for the same inputs: %v", paths)
	}
	old := time.Now().Add(-2 * unusedFor)
	for _, path := range tiny().entries(cache) {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(module, "tiny", "main.go"), tinySource+"\nvar Changed int\n")
	changed, err := tiny().find(t.Context(), module, cache)
	if err != nil {
		t.Fatal(err)
	}
	// The entry of the first version was long unused, so the build removed it.
	programs := slices.DeleteFunc(tiny().entries(cache), func(path string) bool { return filepath.Ext(path) == keySuffix })
	if want := []string{changed}; !slices.Equal(programs, want) || len(tiny().entries(cache)) != 2 {
		t.Errorf("cache holds %v, want %v and one pointer", tiny().entries(cache), want)
	}
}

func TestARequirementThatIsNotUsedBuildsNothing(t *testing.T) {
	module, cache := tinyModule(t), t.TempDir()
	first, err := tiny().find(t.Context(), module, cache)
	if err != nil {
		t.Fatal(err)
	}
	write(t, first, "a build would overwrite this")
	write(t, filepath.Join(module, "go.mod"), "module example.com/tiny\n\ngo 1.26\n\nexclude example.com/other v1.0.0\n")
	second, err := tiny().find(t.Context(), module, cache)
	if err != nil || second != first {
		t.Fatalf("entry %s after the change, %v; want %s", second, err, first)
	}
	if content, err := os.ReadFile(first); err != nil || string(content) != "a build would overwrite this" {
		t.Errorf("the entry was built again: %v", err)
	}
	if n := len(tiny().entries(cache)); n != 3 {
		t.Errorf("cache holds %v, want one program and two pointers", tiny().entries(cache))
	}
}

func TestSourcesOutsideOfTheProgramAreRefused(t *testing.T) {
	module := tinyModule(t)
	write(t, filepath.Join(module, "other", "other.go"), "package other\n")
	write(t, filepath.Join(module, "tiny", "main.go"), "package main\n\nimport _ \"example.com/tiny/other\"\n\nfunc main() {}\n")
	_, err := tiny().find(t.Context(), module, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "example.com/tiny/other") {
		t.Errorf("error does not name the package: %v", err)
	}
}

func TestFailedBuildLeavesNoEntry(t *testing.T) {
	module, cache := tinyModule(t), t.TempDir()
	write(t, filepath.Join(module, "tiny", "main.go"), "package main\n\nfunc main() { undefined() }\n")
	if _, err := tiny().find(t.Context(), module, cache); err == nil || !strings.Contains(err.Error(), "undefined") {
		t.Errorf("error does not say what failed: %v", err)
	}
	if entries := tiny().entries(cache); len(entries) != 0 {
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

func TestPartsAreTheModulesOfTheProgram(t *testing.T) {
	module, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	for want, pkg := range map[string]string{
		"go.etcd.io/etcd/etcdutl/v3 ":        "./controlplane",
		"k8s.io/apiserver ":                  "./controlplane",
		"k8s.io/kube-scheduler ":             "./controllers",
		"github.com/nats-io/nats-server/v2 ": "github.com/nats-io/nats-server/v2",
	} {
		modules, _, err := recipe{pkg: pkg}.parts(t.Context(), module)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(m, want) }) {
			t.Errorf("%s lacks %s", pkg, want)
		}
		if slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(m, "github.com/cloudevents/") }) {
			t.Errorf("%s has modules of the tests: %v", pkg, modules)
		}
	}
}

func TestJarsAreThoseOfTheList(t *testing.T) {
	// The checksum of "a".
	const sum = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
	for name, tt := range map[string]struct {
		jars map[string]string
		list string
		ok   bool
	}{
		"the same":        {map[string]string{"a.jar": "a"}, sum + "  a.jar\n", true},
		"another content": {map[string]string{"a.jar": "b"}, sum + "  a.jar\n", false},
		"another name":    {map[string]string{"b.jar": "a"}, sum + "  a.jar\n", false},
		"one more":        {map[string]string{"a.jar": "a", "b.jar": "a"}, sum + "  a.jar\n", false},
		"none":            {nil, sum + "  a.jar\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			list := filepath.Join(work, "SHA256SUMS")
			write(t, list, tt.list)
			if err := os.Mkdir(filepath.Join(work, "jars"), 0o700); err != nil {
				t.Fatal(err)
			}
			for jar, content := range tt.jars {
				write(t, filepath.Join(work, "jars", jar), content)
			}
			err := verifyJars(filepath.Join(work, "jars"), list)
			if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "SHA256SUMS") {
				t.Errorf("verifyJars: %v", err)
			}
		})
	}
}
