package informer_test

import (
	"maps"
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

// clientGoDiffers are the tests of client-go that this package does not pass as they are, and why.
func clientGoDiffers() map[string]string {
	const functions, lists = "functions of client-go, which this package does not replace", "the first list is read in pages, and never by a watch"
	return map[string]string{
		"TestEventPanics":                              "the next notification follows at once; client-go waits one second",
		"TestPanicPropagated":                          "a panic does not leave the handler",
		"TestResyncCheckPeriod":                        "each handler has exactly its period: no minimum, no common check period, and no need for DefaultResync",
		"TestListenerResyncPeriodsDelayed":             "its delay has no counterpart: handlers start before the watch",
		"TestStoreResourceVersionWithNonMetaTransform": "a transform must return an object; other results are counted in Malformed and skipped",
		"TestCacheWithTransformer":                     "the informer has a transform, its store has none",
		"TestCacheTransactionShouldIndexErrors":        "the store has no transactions: each event is one step",
		"TestFIFOCache":                                "there is no such queue",
		"TestUndeltaStore":                             "there is no such queue",
		"TestWithStoreMetricsDefaulting":               "Factory.Stats has counters; the store has no metrics",
		"TestDeletionHandlingObjectToName":             functions,
		"TestDeletedObjectGetObjectName":               functions,
		"TestDeletedObjectGetKey":                      functions,

		"dynamicinformer.TestWatchListSemanticsSimple":     lists,
		"dynamicinformer.TestUnSupportWatchListSemantics":  lists,
		"metadatainformer.TestWatchListSemanticsSimple":    lists,
		"metadatainformer.TestUnSupportWatchListSemantics": lists,
	}
}

// TestClientGoTable holds the scenarios, the differences and client-go's tests together: a release of
// client-go with another test needs a scenario or a difference.
func TestClientGoTable(t *testing.T) {
	all, needed := clientGoTests(t)
	scenarios, differs := clientGo(), clientGoDiffers()
	for _, name := range slices.Concat(slices.Collect(maps.Keys(scenarios)), slices.Collect(maps.Keys(differs))) {
		if !slices.Contains(all, name) {
			t.Errorf("client-go has no %s", name)
		}
	}
	for _, name := range needed {
		if scenarios[name] == nil && differs[name] == "" {
			t.Errorf("%s has neither a scenario nor a reason why it differs", name)
		}
	}
}
