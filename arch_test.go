// Package informd_test holds the arrows between the packages of this module, as
// ARCHITECTURE.md draws them. The linter says the same about direct imports while
// one types; this looks at everything that comes along with them.
package informd_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/informd/informd"

// goPackage is what the tests read of `go list -json`.
type goPackage struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	Deps         []string // all that Imports bring along, themselves included
	TestImports  []string
	XTestImports []string
}

// list returns the packages that `go list` prints, by import path.
func list(t *testing.T, args ...string) map[string]goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Standard,Imports,Deps,TestImports,XTestImports"}, args...)...)
	output, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	packages := make(map[string]goPackage)
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// within reports whether path is the package or below it.
func within(path, tree string) bool {
	return path == tree || strings.HasPrefix(path, tree+"/")
}

func withinAny(path string, trees []string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return within(path, tree) })
}

// arrow is a rule about the packages of one tree.
type arrow struct {
	// except are trees below that the rule is not about.
	except []string
	// only, if set, are the trees outside of the standard library that may
	// come along.
	only []string
	// never are trees that may not come along.
	never []string
}

func (a arrow) forbids(dep goPackage) bool {
	if withinAny(dep.ImportPath, a.never) {
		return true
	}
	return a.only != nil && !dep.Standard && !withinAny(dep.ImportPath, a.only)
}

// arrows maps a tree, below the module, to its rule. A tree need not exist yet.
func arrows() map[string]arrow {
	ours := func(trees ...string) []string {
		all := make([]string, len(trees))
		for i, tree := range trees {
			all[i] = module + "/" + tree
		}
		return all
	}
	watching := func(names ...string) []string {
		trees := make([]string, len(names))
		for i, name := range names {
			trees[i] = "pkg/dynwatch/internal/" + name
		}
		return ours(trees...)
	}
	// The parts of the program; the other packages of internal are leaves.
	parts := func() []string {
		return ours("internal/admin", "internal/cli", "internal/config", "internal/configfile", "internal/daemon", "internal/deliver",
			"internal/page", "internal/rbac", "internal/replica", "internal/tail", "internal/when")
	}
	return map[string]arrow{
		"internal":        {except: append(parts(), ours("internal/change", "internal/form")...), only: []string{}},
		"internal/change": {only: ours("pkg/fieldpath", "internal/jsonend", "internal/search")},
		"internal/form":   {only: ours("internal/jsonend")},
		"pkg/event":       {only: ours("pkg/event", "internal/form", "internal/jsonend")},
		"pkg/fieldpath":   {only: ours("pkg/fieldpath", "internal/jsonend", "internal/search")},
		"pkg/journal":     {only: ours("pkg/journal", "pkg/event", "internal/form", "internal/jsonend", "internal/display", "internal/private")},
		"pkg/connection":  {only: ours("pkg/connection", "pkg/sink", "pkg/event", "internal/form", "internal/jsonend")},
		"pkg/dynwatch": {
			// Of the journal, it needs the contract of the log only.
			never: append(ours("pkg/sink", "cmd"),
				"k8s.io/client-go/informers", "k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic/dynamicinformer"),
		},
		"pkg/dynwatch/internal/decide": {only: ours("pkg/dynwatch/internal/decide", "pkg/event", "internal/form", "internal/jsonend")},
		// The parts of a target that are packages take values and know neither the loop nor its state.
		"pkg/dynwatch/internal/emit":      {never: watching("target", "recovery", "selection", "status")},
		"pkg/dynwatch/internal/recovery":  {never: watching("target", "emit", "selection", "status")},
		"pkg/dynwatch/internal/selection": {never: watching("target", "emit", "recovery", "status")},
		"pkg/sink": {
			except: ours("pkg/sink/sinktest"),
			never:  append(ours("pkg/dynwatch", "pkg/journal", "cmd"), "k8s.io"),
		},
		"pkg":              {except: ours("pkg/informd"), never: append(ours("cmd"), parts()...)},
		"pkg/informd":      {never: ours("cmd")},
		"internal/deliver": {never: append(ours("pkg/dynwatch"), "k8s.io", "github.com/google/cel-go")},
		"internal/page":    {only: ours("internal/page")},
		"internal/replica": {never: ours("pkg/dynwatch", "pkg/sink", "internal/daemon", "internal/deliver", "internal/admin", "internal/config")},
		"internal/tail":    {never: append(ours("pkg/dynwatch", "pkg/journal", "internal/deliver", "internal/admin"), "k8s.io/client-go")},
		"internal/when": {
			never: append(ours("pkg/dynwatch", "pkg/journal", "pkg/sink", "internal/config", "internal/configfile", "internal/deliver"),
				"k8s.io/client-go"),
		},
		"cmd/informd": {
			never: []string{"k8s.io/client-go/informers", "k8s.io/client-go/kubernetes", "k8s.io/client-go/listers", "testing"},
		},
	}
}

func TestImportsFollowTheArrows(t *testing.T) {
	packages := list(t, "./...")
	known := list(t, "-deps", "./...")
	for tree, rule := range arrows() {
		t.Run(tree, func(t *testing.T) {
			for path, p := range packages {
				if !within(path, module+"/"+tree) || withinAny(path, rule.except) {
					continue
				}
				for _, dep := range p.Deps {
					if rule.forbids(known[dep]) {
						t.Errorf("%s depends on %s", path, dep)
					}
				}
			}
		})
	}
}

// The contract itself (pkg/sink) knows events and nothing else; a sink type
// knows the contract and no other sink type. Only the list of drivers and the
// conformance suite, which is about all of them, know more.
func TestSinksDoNotKnowEachOther(t *testing.T) {
	const sinks = module + "/pkg/sink"
	events := []string{module + "/pkg/event", module + "/internal/form", module + "/internal/jsonend"}
	for path, p := range list(t, "./pkg/sink/...") {
		if path == sinks+"/drivers" || path == sinks+"/sinktest" || path == sinks+"/internal/endpoint/endpointtest" {
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, sinks+"/") && !within(dep, sinks+"/internal") && path != dep {
				t.Errorf("%s depends on %s", path, dep)
			}
			if path == sinks && strings.HasPrefix(dep, module) && !withinAny(dep, events) {
				t.Errorf("%s depends on %s", path, dep)
			}
		}
	}
}

// Viper lower-cases keys and splits them on dots, and the CEL library of Kubernetes brings
// the types of the core API along, so one package keeps each of them in.
func TestOnePackageKeepsItIn(t *testing.T) {
	fences := map[string]string{
		"github.com/spf13/viper": module + "/internal/configfile",
		"k8s.io/apiserver":       module + "/internal/when",
	}
	for path, p := range list(t, "./...") {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			for tree, fence := range fences {
				if within(imported, tree) && path != fence {
					t.Errorf("%s imports %s, which is for %s alone", path, imported, fence)
				}
			}
		}
	}
}

// What the program is made of shows in its size and in every security report:
// test libraries and whole servers stay out.
func TestProgramHasNoTestDependencies(t *testing.T) {
	unwanted := []string{
		"github.com/google/go-cmp", "github.com/nats-io/nats-server", "github.com/onsi/ginkgo", "github.com/onsi/gomega",
		"github.com/rogpeppe/go-internal", "github.com/stretchr/testify", "github.com/twmb/franz-go/pkg/kfake", "go.uber.org/goleak", "k8s.io/kubernetes", "go.etcd.io/etcd",
	}
	for path := range maps.Keys(list(t, "-deps", "./cmd/...")) {
		if withinAny(path, unwanted) {
			t.Errorf("cmd/informd depends on %s", path)
		}
	}
}
