package change_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What follows does on decoded objects, as the standards have it and without a thought of
// speed, what the package does on bytes.

func decode(tb testing.TB, raw []byte) any {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		tb.Fatalf("%v: %s", err, raw)
	}
	return v
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }

// applyPatch applies the operations of a JSON Patch that this package uses.
func applyPatch(object any, patch []byte) (any, error) {
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil, err
	}
	for _, o := range operations {
		tokens := strings.Split(o.Path, "/")
		if len(tokens) < 2 || tokens[0] != "" {
			return nil, fmt.Errorf("path %q", o.Path)
		}
		for i, token := range tokens {
			tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		}
		var value any
		if (o.Value == nil) != (o.Op == "remove") {
			return nil, fmt.Errorf("%s %s with the value %s", o.Op, o.Path, o.Value)
		}
		if o.Value != nil {
			d := json.NewDecoder(bytes.NewReader(o.Value))
			d.UseNumber()
			if err := d.Decode(&value); err != nil {
				return nil, err
			}
		}
		var err error
		if object, err = apply(object, o.Op, tokens[1:], value); err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Op, o.Path, err)
		}
	}
	return object, nil
}

// apply returns what becomes of v.
func apply(v any, op string, tokens []string, value any) (any, error) {
	last := len(tokens) == 1
	switch v := v.(type) {
	case map[string]any:
		inner, there := v[tokens[0]]
		switch {
		case last && op == "remove" && there:
			delete(v, tokens[0])
		case last && (op == "add" && !there || op == "replace" && there): // an add of what is there is legal, and not what is meant
			v[tokens[0]] = value
		case last || !there:
			return nil, fmt.Errorf("member %q, there: %v", tokens[0], there)
		default:
			var err error
			v[tokens[0]], err = apply(inner, op, tokens[1:], value)
			return v, err
		}
		return v, nil
	case []any:
		i, err := strconv.Atoi(tokens[0])
		if err != nil || i < 0 || i > len(v) || i == len(v) && (!last || op != "add") {
			return nil, fmt.Errorf("element %q of %d", tokens[0], len(v))
		}
		switch {
		case last && op == "remove":
			return slices.Delete(v, i, i+1), nil
		case last && op == "add":
			return slices.Insert(v, i, value), nil
		case last:
			v[i] = value
			return v, nil
		default:
			v[i], err = apply(v[i], op, tokens[1:], value)
			return v, err
		}
	default:
		return nil, fmt.Errorf("%q of a %T", tokens[0], v)
	}
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_$-]+$`)

func walk(before, after any, path string, found func(string)) {
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			found(path)
			return
		}
		walkMembers(b, a, path, found)
	case []any:
		a, ok := after.([]any)
		if !ok {
			found(path)
			return
		}
		for len(b) > 0 && len(a) > 0 && same(b[0], a[0]) {
			b, a = b[1:], a[1:]
		}
		for len(b) > 0 && len(a) > 0 && same(b[len(b)-1], a[len(a)-1]) {
			b, a = b[:len(b)-1], a[:len(a)-1]
		}
		if len(b) != len(a) {
			found(path + "[]")
		}
		for i := range min(len(b), len(a)) {
			walk(b[i], a[i], path+"[]", found)
		}
	default:
		if !same(before, after) {
			found(path)
		}
	}
}

func walkMembers(before, after map[string]any, path string, found func(string)) {
	for _, key := range slices.Collect(maps.Keys(before)) {
		if _, ok := after[key]; !ok {
			found(pathOf(path, key))
		}
	}
	for key, a := range after {
		if b, ok := before[key]; ok {
			walk(b, a, pathOf(path, key), found)
		} else {
			found(pathOf(path, key))
		}
	}
}

func pathOf(outer, key string) string {
	if !bareKey.MatchString(key) {
		quoted, err := json.Marshal(key)
		if err != nil {
			panic(err)
		}
		return outer + "[" + string(quoted) + "]"
	}
	if outer == "" {
		return key
	}
	return outer + "." + key
}
