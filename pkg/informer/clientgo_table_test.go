package informer_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// clientGoTests returns the names of the tests of client-go: all of its packages, and those that need
// a scenario or a row of the table.
func clientGoTests(t *testing.T) (all, needed []string) {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go").Output()
	must(t, err)
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for path, files := range map[string][]string{
		"tools/cache": {
			"shared_informer_test.go", "processor_listener_test.go", "controller_test.go", "store_test.go",
			"index_test.go", "thread_safe_store_test.go", "listers_test.go",
		},
		"dynamic/dynamicinformer":   {"informer_test.go"},
		"dynamic/dynamiclister":     {"lister_test.go"},
		"metadata/metadatainformer": {"informer_test.go"},
		"metadata/metadatalister":   {"lister_test.go"},
	} {
		found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), path, "*_test.go"))
		must(t, err)
		prefix := ""
		if path != "tools/cache" {
			prefix = filepath.Base(path) + "."
		}
		for _, file := range found {
			text, err := os.ReadFile(file)
			must(t, err)
			for _, match := range function.FindAllStringSubmatch(string(text), -1) {
				all = append(all, prefix+match[1])
				if slices.Contains(files, filepath.Base(file)) {
					needed = append(needed, prefix+match[1])
				}
			}
		}
	}
	return all, needed
}

// TestClientGoTable holds the table of docs/embedding.md, the scenarios and client-go's tests together:
// a release of client-go with another test needs a scenario or a row.
func TestClientGoTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/embedding.md")
	must(t, err)
	_, section, _ := strings.Cut(string(text), "### client-go's own tests")
	section, _, _ = strings.Cut(section, "###")
	var rows []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
				rows = append(rows, name[1])
			}
		}
	}
	all, needed := clientGoTests(t)
	scenarios, equal := clientGo(), 0
	for name := range scenarios {
		if !slices.Contains(all, name) {
			t.Errorf("client-go has no %s", name)
		}
		if !slices.Contains(rows, name) {
			equal++
		}
	}
	for _, name := range rows {
		if !slices.Contains(all, name) {
			t.Errorf("client-go has no %s, which the table names", name)
		}
	}
	for _, name := range needed {
		if scenarios[name] == nil && !slices.Contains(rows, name) {
			t.Errorf("%s has neither a scenario nor a row", name)
		}
	}
	if want := fmt.Sprintf(" %d scenarios are equal.", equal); !strings.Contains(section, want) {
		t.Errorf("docs/embedding.md does not say %q", want)
	}
}
