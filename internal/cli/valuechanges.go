package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// changedPaths returns where two objects differ, in order. Elements of lists are compared by position, those
// of objects that all have a name by name. The resourceVersion does not count. An object that is no JSON
// differs as a whole.
func changedPaths(before, after []byte) []string {
	var a, b any
	if decodeNumbers(before, &a) != nil || decodeNumbers(after, &b) != nil {
		return []string{"(object)"}
	}
	var all []string
	compareValues(a, b, "", &all)
	return slices.DeleteFunc(all, func(path string) bool { return path == "metadata.resourceVersion" })
}

// decodeNumbers reads JSON, with numbers as they are written.
func decodeNumbers(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read the object: %w", err)
	}
	return nil
}

func compareValues(a, b any, path string, into *[]string) {
	if reflect.DeepEqual(a, b) {
		return
	}
	from, isObject := a.(map[string]any)
	to, alsoObject := b.(map[string]any)
	if isObject && alsoObject {
		if path != "" {
			path += "."
		}
		for _, key := range unionOfKeys(from, to) {
			compareValues(from[key], to[key], path+key, into)
		}
		return
	}
	before, isList := a.([]any)
	after, alsoList := b.([]any)
	if isList && alsoList {
		compareLists(before, after, path, into)
		return
	}
	*into = append(*into, path)
}

func compareLists(a, b []any, path string, into *[]string) {
	from, to := itemsByName(a), itemsByName(b)
	if from != nil && to != nil {
		for _, key := range unionOfKeys(from, to) {
			compareValues(from[key], to[key], path+"["+key+"]", into)
		}
		return
	}
	for i := range max(len(a), len(b)) {
		var one, other any
		if i < len(a) {
			one = a[i]
		}
		if i < len(b) {
			other = b[i]
		}
		compareValues(one, other, fmt.Sprintf("%s[%d]", path, i), into)
	}
}

// unionOfKeys are those of both, in order.
func unionOfKeys(a, b map[string]any) []string {
	all := slices.Collect(maps.Keys(a))
	for key := range b {
		if _, known := a[key]; !known {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

// itemsByName are the elements of a list by their names; nil if one has none, or two have the same.
func itemsByName(list []any) map[string]any {
	named := make(map[string]any, len(list))
	for _, one := range list {
		object, _ := one.(map[string]any)
		name, ok := object["name"].(string)
		if _, twice := named[name]; !ok || twice {
			return nil
		}
		named[name] = one
	}
	return named
}
