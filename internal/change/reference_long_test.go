//go:build long

package change_test

import (
	"maps"
	"slices"
	"strings"
)

// changed returns the paths to what differs, in order.
func changed(before, after any) []string {
	found := make(map[string]bool)
	walk(before, after, "", func(path string) { found[path] = true })
	delete(found, "metadata.resourceVersion")
	maps.DeleteFunc(found, func(path string, _ bool) bool {
		rest, ok := strings.CutPrefix(path, "metadata.managedFields")
		return ok && (rest == "" || strings.ContainsAny(rest[:1], ".["))
	})
	return slices.Sorted(maps.Keys(found))
}
