package past

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Change is a value that differs between two objects.
type Change struct {
	// Path is as in "spec.replicas".
	Path string
	// From and To are the values as JSON; "" is none.
	From, To string
}

// Values returns what differs between two objects, in the order of the paths. Elements of lists
// are compared by position, those of objects that all have a name by name. The resourceVersion
// does not count. An object that is no JSON differs as a whole.
func Values(before, after []byte) []Change {
	var a, b any
	if decode(before, &a) != nil || decode(after, &b) != nil {
		return []Change{{Path: "(object)"}}
	}
	var all []Change
	compare(a, b, "", &all)
	return slices.DeleteFunc(all, func(c Change) bool { return c.Path == "metadata.resourceVersion" })
}

// decode reads JSON, with numbers as they are written.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read the object: %w", err)
	}
	return nil
}

func text(value any) string {
	if value == nil {
		return ""
	}
	out, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(out)
}

func compare(a, b any, path string, into *[]Change) {
	if reflect.DeepEqual(a, b) {
		return
	}
	from, isObject := a.(map[string]any)
	to, alsoObject := b.(map[string]any)
	if isObject && alsoObject {
		if path != "" {
			path += "."
		}
		for _, key := range keys(from, to) {
			compare(from[key], to[key], path+key, into)
		}
		return
	}
	before, isList := a.([]any)
	after, alsoList := b.([]any)
	if isList && alsoList {
		compareLists(before, after, path, into)
		return
	}
	*into = append(*into, Change{Path: path, From: text(a), To: text(b)})
}

func compareLists(a, b []any, path string, into *[]Change) {
	from, to := byName(a), byName(b)
	if from != nil && to != nil {
		for _, key := range keys(from, to) {
			compare(from[key], to[key], path+"["+key+"]", into)
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
		compare(one, other, fmt.Sprintf("%s[%d]", path, i), into)
	}
}

// keys are those of both, in order.
func keys(a, b map[string]any) []string {
	all := slices.Collect(maps.Keys(a))
	for key := range b {
		if _, known := a[key]; !known {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

// byName are the elements of a list by their names; nil if one has none, or two have the same.
func byName(list []any) map[string]any {
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
