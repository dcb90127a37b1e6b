package emit

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/fieldpath"
)

func changeFilters(t testing.TB, items ...string) []fieldpath.ChangeFilter {
	t.Helper()
	all, err := fieldpath.ParseChangeFilters(items, false)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFilters(t *testing.T) {
	object := func(revision int, metadata, rest string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"name":"a","uid":"u","resourceVersion":"%d"%s}%s}`, revision, metadata, rest)
	}
	for name, tt := range map[string]struct {
		changed       []string
		noop          bool
		before, after []byte
		open          bool
	}{
		"path":                  {changed: []string{"a"}, before: object(1, "", `,"a":1,"b":1`), after: object(2, "", `,"a":2,"b":1`), open: true},
		"another path":          {changed: []string{"a"}, before: object(1, "", `,"a":1,"b":1`), after: object(2, "", `,"a":1,"b":2`)},
		"any of them":           {changed: []string{"a", "b"}, before: object(1, "", `,"a":1,"b":1`), after: object(2, "", `,"a":1,"b":2`), open: true},
		"came":                  {changed: []string{"a"}, before: object(1, "", ""), after: object(2, "", `,"a":null`), open: true},
		"went":                  {changed: []string{"a"}, before: object(1, "", `,"a":0`), after: object(2, "", ""), open: true},
		"never there":           {changed: []string{"a.b"}, before: object(1, "", `,"a":0`), after: object(2, "", `,"a":1`)},
		"elements":              {changed: []string{"a[].b"}, before: object(1, "", `,"a":[{"b":1,"c":1}]`), after: object(2, "", `,"a":[{"b":1,"c":2},{}]`)},
		"element":               {changed: []string{"a[].b"}, before: object(1, "", `,"a":[{"b":1},{"b":2}]`), after: object(2, "", `,"a":[{"b":2},{"b":1}]`), open: true},
		"same value, other key": {changed: []string{"a.*"}, before: object(1, "", `,"a":{"x":1}`), after: object(2, "", `,"a":{"y":1}`), open: true},
		"split otherwise":       {changed: []string{"a[]"}, before: object(1, "", `,"a":["x","y"]`), after: object(2, "", `,"a":["xy"]`), open: true},
		"moved to another path": {changed: []string{"a", "b"}, before: object(1, "", `,"a":1,"b":2`), after: object(2, "", `,"a":2,"b":1`), open: true},
		"generation":            {changed: []string{"spec"}, before: object(1, `,"generation":1`, `,"spec":1`), after: object(2, `,"generation":2`, `,"spec":1`), open: true},
		"same generation":       {changed: []string{"spec"}, before: object(1, `,"generation":1`, `,"spec":1`), after: object(2, `,"generation":1`, `,"spec":2`)},
		"generation behind":     {changed: []string{"spec"}, before: []byte(`{"spec":1,"metadata":{"name":"a","uid":"u","resourceVersion":"1","generation":3}}`), after: object(2, `,"generation":3`, `,"spec":2`)},
		"spec":                  {changed: []string{"spec"}, before: object(1, "", `,"spec":1`), after: object(2, "", `,"spec":2`), open: true},
		"not spec":              {changed: []string{"spec"}, before: object(1, "", `,"spec":1,"status":1`), after: object(2, "", `,"spec":1,"status":2`)},
		"status":                {changed: []string{"status"}, before: object(1, "", `,"status":1`), after: object(2, "", `,"status":2`), open: true},
		"labels":                {changed: []string{"metadata"}, before: object(1, `,"labels":{"a":"b"}`, ""), after: object(2, `,"labels":{"a":"c"}`, ""), open: true},
		"deletion":              {changed: []string{"metadata"}, before: object(1, "", ""), after: object(2, `,"deletionTimestamp":"x"`, ""), open: true},
		"not metadata":          {changed: []string{"metadata"}, before: object(1, `,"generation":1`, ""), after: object(2, `,"generation":2,"managedFields":[1]`, `,"spec":1`)},
		"noop":                  {noop: true, before: object(1, "", `,"a":1`), after: object(20, "", `,"a":1`)},
		"no noop":               {noop: true, before: object(1, "", `,"a":1`), after: object(2, "", `,"a":2`), open: true},
		"noop and filter":       {noop: true, changed: []string{"a"}, before: object(1, "", `,"a":1,"b":1`), after: object(2, "", `,"a":1,"b":2`)},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFilters(changeFilters(t, tt.changed...), nil, tt.noop)
			if held, unchanged := f.compare(tt.before, tt.after); held == tt.open || len(unchanged) > 0 {
				t.Errorf("held is %t, and unchanged %v", held, unchanged)
			}
			for _, unknown := range []string{"", "1"} {
				if held, unchanged := f.compare([]byte(unknown), tt.after); held || unchanged == nil || len(unchanged) > 0 {
					t.Errorf("against %q held is %t, and unchanged %v", unknown, held, unchanged)
				}
			}
		})
	}
	if NewFilters(nil, nil, false) != nil {
		t.Error("filters of nothing")
	}
}

// TestFiltersOfSinks: they hold nothing back, and are listed if they see no change, those that the entry
// has as well.
func TestFiltersOfSinks(t *testing.T) {
	f := NewFilters(changeFilters(t, "a", "b"), changeFilters(t, "b", "c", "d"), false)
	held, unchanged := f.compare([]byte(`{"a":1,"b":1,"c":1}`), []byte(`{"a":2,"b":1,"c":1,"d":1}`))
	if want := []uint64{changeFilters(t, "b")[0].ID(), changeFilters(t, "c")[0].ID()}; held || !slices.Equal(unchanged, want) {
		t.Errorf("held is %t, and unchanged %v, want %v", held, unchanged, want)
	}
	if held, _ := NewFilters(nil, changeFilters(t, "a"), false).compare([]byte(`{}`), []byte(`{}`)); held {
		t.Error("a filter of a sink holds an event back from others")
	}
}

// named is what a change filter names in a decoded object.
func named(text string, object any) (values []any) {
	at := func(path string) []any {
		return leads(object, strings.Split(strings.ReplaceAll(path, "[]", ".[]"), "."))
	}
	switch text {
	case "spec":
		if values = at("metadata.generation"); len(values) > 0 {
			return append(values, "generation")
		}
	case "metadata":
		for _, key := range []string{"labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"} {
			values = append(values, at("metadata."+key))
		}
		return values
	}
	return at(text)
}

// leads are the values that a path leads to, each with the keys on the way.
func leads(v any, path []string) (values []any) {
	if len(path) == 0 {
		return []any{v}
	}
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if path[0] == "*" || path[0] == k {
				for _, one := range leads(v[k], path[1:]) {
					values = append(values, []any{k, one})
				}
			}
		}
	case []any:
		if path[0] == "[]" {
			path = path[1:]
		}
		for _, element := range v {
			for _, one := range leads(element, path) {
				values = append(values, []any{"[]", one}) // an object instead of its list is a change
			}
		}
	}
	return values
}

// TestFiltersEqualReference: random changes pass random filters exactly if what the filters name
// is another one, decoded.
func TestFiltersEqualReference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	const pairs = 20_000
	passed := 0
	for i := range uint64(pairs) {
		r := rand.New(rand.NewPCG(seed, i))
		before := randomObject(r)
		after := randomObject(r)
		for key, v := range before { // few members change
			if r.IntN(5) > 0 {
				after[key] = v
			}
		}
		before["metadata"].(map[string]any)["resourceVersion"] = "1" //nolint:forcetypeassert // see randomObject
		var items []string
		for _, item := range []string{"spec", "status", "metadata", "a", "a.b", "a.*", "a[]", "a[].b", "b.a[].b", "*.a", "b.*.a", `status.a`} {
			if r.IntN(8) == 0 {
				items = append(items, item)
			}
		}
		noop := r.IntN(3) == 0
		f := NewFilters(changeFilters(t, items...), nil, noop)
		if f == nil {
			continue
		}
		was, is := encode(t, before), encode(t, after)
		want := len(items) == 0 || slices.ContainsFunc(items, func(item string) bool {
			return !reflect.DeepEqual(named(item, before), named(item, after))
		})
		if noop {
			delete(before["metadata"].(map[string]any), "resourceVersion") //nolint:forcetypeassert // see randomObject
			delete(after["metadata"].(map[string]any), "resourceVersion")  //nolint:forcetypeassert // see randomObject
			want = want && !reflect.DeepEqual(before, after)
		}
		if held, _ := f.compare(was, is); held == want {
			t.Fatalf("seed %d/%d: filters %q, noop %t: held is %t\nfrom %s\nto   %s", seed, i, items, noop, held, was, is)
		}
		if want {
			passed++
		}
	}
	if passed < pairs/10 || passed > pairs*9/10 {
		t.Errorf("seed %d: %d of %d pairs pass: nothing is proven", seed, passed, pairs)
	}
}

func encode(t *testing.T, object any) []byte {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func randomObject(r *rand.Rand) map[string]any {
	object := map[string]any{"metadata": map[string]any{"name": "x", "resourceVersion": "2"}}
	if r.IntN(2) == 0 {
		object["metadata"] = map[string]any{"name": "x", "resourceVersion": "2", "generation": float64(r.IntN(2)), "labels": randomNode(r, 2)}
	}
	for _, key := range []string{"a", "b", "spec", "status"} {
		if r.IntN(4) > 0 {
			object[key] = randomNode(r, 0)
		}
	}
	return object
}

func randomNode(r *rand.Rand, depth int) any {
	switch kind := r.IntN(4); {
	case kind == 0 || depth > 2:
		return []any{nil, true, 1.0, "x", "", map[string]any{}, []any{}}[r.IntN(7)]
	case kind == 1:
		var list []any
		for range r.IntN(3) {
			list = append(list, randomNode(r, depth+1))
		}
		return append([]any{}, list...)
	default:
		object := map[string]any{}
		for _, key := range []string{"a", "b", "c"} {
			if r.IntN(2) == 0 {
				object[key] = randomNode(r, depth+1)
			}
		}
		return object
	}
}

// BenchmarkFilters compares two states of an object of 8.5 KB.
func BenchmarkFilters(b *testing.B) {
	object := func(restarts int) []byte {
		containers := strings.Repeat(`{"name":"web","image":"registry.example.com/shop/web:v1","env":[{"name":"MODE","value":"prod"}]},`, 82)
		return fmt.Appendf(nil, `{"metadata":{"name":"a","uid":"u","resourceVersion":"%d","generation":1,"labels":{"app":"web"}},"spec":{"containers":[%s{}]},"status":{"phase":"Running","restarts":%d}}`, restarts, containers, restarts)
	}
	before, after := object(1), object(2)
	for name, f := range map[string]*Filters{
		"three":   NewFilters(changeFilters(b, "spec", "metadata.labels", "status.phase"), nil, false),
		"presets": NewFilters(changeFilters(b, "spec", "status", "metadata"), nil, false),
		"noop":    NewFilters(nil, nil, true),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(after)))
			for b.Loop() {
				f.compare(before, after)
			}
		})
	}
}
