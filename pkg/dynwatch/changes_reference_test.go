package dynwatch_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// decodedJSON decodes JSON with its numbers as they stand.
func decodedJSON(t *testing.T, data []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

// operation is one of a JSON patch.
type operation struct {
	Op, Path string
	Value    json.RawMessage
}

// patched applies a JSON patch to a decoded object, as RFC 6902 says.
func patched(t *testing.T, v any, patch []byte) any {
	t.Helper()
	var all []operation
	if err := json.Unmarshal(patch, &all); err != nil {
		t.Fatalf("%v in the patch %s", err, patch)
	}
	for _, o := range all {
		var steps []string
		for _, step := range strings.Split(o.Path, "/")[1:] {
			steps = append(steps, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		}
		var ok bool
		if v, ok = o.apply(t, v, steps); !ok {
			t.Fatalf("%s %s leads nowhere in the patch %s", o.Op, o.Path, patch)
		}
	}
	return v
}

func (o operation) apply(t *testing.T, v any, steps []string) (any, bool) {
	t.Helper()
	if len(steps) == 0 {
		return decodedJSON(t, o.Value), o.Op != "remove"
	}
	switch v := v.(type) {
	case map[string]any:
		return o.applyMember(t, v, steps)
	case []any:
		return o.applyElement(t, v, steps)
	}
	return v, false
}

func (o operation) applyMember(t *testing.T, v map[string]any, steps []string) (any, bool) {
	t.Helper()
	inner, there := v[steps[0]]
	switch {
	case len(steps) > 1:
		next, ok := o.apply(t, inner, steps[1:])
		v[steps[0]] = next
		return v, ok
	case o.Op == "remove":
		delete(v, steps[0])
		return v, there
	default:
		v[steps[0]] = decodedJSON(t, o.Value)
		return v, there || o.Op == "add"
	}
}

func (o operation) applyElement(t *testing.T, v []any, steps []string) (any, bool) {
	t.Helper()
	i, err := strconv.Atoi(steps[0])
	if steps[0] == "-" {
		i, err = len(v), nil
	}
	adds := len(steps) == 1 && o.Op == "add"
	if err != nil || i < 0 || i > len(v) || i == len(v) && !adds {
		return v, false
	}
	switch {
	case adds:
		return slices.Insert(v, i, decodedJSON(t, o.Value)), true
	case len(steps) == 1 && o.Op == "remove":
		return slices.Delete(v, i, i+1), true
	default:
		next, ok := o.apply(t, v[i], steps[1:])
		v[i] = next
		return v, ok
	}
}
