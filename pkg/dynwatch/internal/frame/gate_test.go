package frame_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/fieldpath"
)

func gatesOf(t testing.TB, items ...string) []fieldpath.Gate {
	t.Helper()
	all, err := fieldpath.ParseGates(items, false)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// gatedBy returns a normaliser with gates, and whatever shape the rules make.
func gatedBy(t testing.TB, r rules, gates *frame.Gates) *frame.Normaliser {
	t.Helper()
	shape := frame.NewShape(frame.ShapeOptions{Rules: r.parse(t), Gates: gates}, frame.NewRedactor([]byte(shapeKey)))
	return frame.NewNormaliser("v1", "Kind", frame.Options{Shape: func() *frame.Shape { return shape }})
}

func normalised(t testing.TB, n *frame.Normaliser, raw []byte) frame.Object {
	t.Helper()
	o, err := n.Normalise(raw)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestGates(t *testing.T) {
	object := func(revision int, metadata, rest string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"name":"a","uid":"u","resourceVersion":"%d"%s}%s}`, revision, metadata, rest)
	}
	for name, tt := range map[string]struct {
		gates         []string
		noop          bool
		rules         rules
		before, after []byte
		open          bool
	}{
		"no gate":               {before: object(1, "", ""), after: object(1, "", ""), open: true},
		"path":                  {gates: []string{"a"}, before: object(1, "", `,"a":1,"b":1`), after: object(2, "", `,"a":2,"b":1`), open: true},
		"another path":          {gates: []string{"a"}, before: object(1, "", `,"a":1,"b":1`), after: object(2, "", `,"a":1,"b":2`)},
		"any of them":           {gates: []string{"a", "b"}, before: object(1, "", `,"a":1,"b":1`), after: object(2, "", `,"a":1,"b":2`), open: true},
		"came":                  {gates: []string{"a"}, before: object(1, "", ""), after: object(2, "", `,"a":null`), open: true},
		"went":                  {gates: []string{"a"}, before: object(1, "", `,"a":0`), after: object(2, "", ""), open: true},
		"never there":           {gates: []string{"a.b"}, before: object(1, "", `,"a":0`), after: object(2, "", `,"a":1`)},
		"elements":              {gates: []string{"a[].b"}, before: object(1, "", `,"a":[{"b":1,"c":1}]`), after: object(2, "", `,"a":[{"b":1,"c":2},{}]`)},
		"element":               {gates: []string{"a[].b"}, before: object(1, "", `,"a":[{"b":1},{"b":2}]`), after: object(2, "", `,"a":[{"b":2},{"b":1}]`), open: true},
		"same value, other key": {gates: []string{"a.*"}, before: object(1, "", `,"a":{"x":1}`), after: object(2, "", `,"a":{"y":1}`), open: true},
		"split otherwise":       {gates: []string{"a[]"}, before: object(1, "", `,"a":["x","y"]`), after: object(2, "", `,"a":["xy"]`), open: true},
		"moved to another path": {gates: []string{"a", "b"}, before: object(1, "", `,"a":1,"b":2`), after: object(2, "", `,"a":2,"b":1`), open: true},
		"generation":            {gates: []string{"spec"}, before: object(1, `,"generation":1`, `,"spec":1`), after: object(2, `,"generation":2`, `,"spec":1`), open: true},
		"same generation":       {gates: []string{"spec"}, before: object(1, `,"generation":1`, `,"spec":1`), after: object(2, `,"generation":1`, `,"spec":2`)},
		"generation behind":     {gates: []string{"spec"}, before: []byte(`{"spec":1,"metadata":{"name":"a","uid":"u","resourceVersion":"1","generation":3}}`), after: object(2, `,"generation":3`, `,"spec":2`)},
		"spec":                  {gates: []string{"spec"}, before: object(1, "", `,"spec":1`), after: object(2, "", `,"spec":2`), open: true},
		"not spec":              {gates: []string{"spec"}, before: object(1, "", `,"spec":1,"status":1`), after: object(2, "", `,"spec":1,"status":2`)},
		"status":                {gates: []string{"status"}, before: object(1, "", `,"status":1`), after: object(2, "", `,"status":2`), open: true},
		"labels":                {gates: []string{"metadata"}, before: object(1, `,"labels":{"a":"b"}`, ""), after: object(2, `,"labels":{"a":"c"}`, ""), open: true},
		"deletion":              {gates: []string{"metadata"}, before: object(1, "", ""), after: object(2, `,"deletionTimestamp":"x"`, ""), open: true},
		"not metadata":          {gates: []string{"metadata"}, before: object(1, `,"generation":1`, ""), after: object(2, `,"generation":2,"managedFields":[1]`, `,"spec":1`)},
		"noop":                  {noop: true, before: object(1, `,"managedFields":[1]`, `,"a":1`), after: object(20, "", `,"a":1`)},
		"no noop":               {noop: true, before: object(1, "", `,"a":1`), after: object(2, "", `,"a":2`), open: true},
		"noop and gate":         {noop: true, gates: []string{"a"}, before: object(1, "", `,"a":1,"b":1`), after: object(2, "", `,"a":1,"b":2`)},
		"omitted":               {gates: []string{"a"}, rules: rules{omit: []string{"a"}}, before: object(1, "", `,"a":1`), after: object(2, "", `,"a":2`), open: true},
		"not kept":              {noop: true, rules: rules{keep: []string{"b"}}, before: object(1, "", `,"a":1`), after: object(2, "", `,"a":2`), open: true},
		"redacted":              {gates: []string{"a"}, rules: rules{redact: []string{"a"}}, before: object(1, "", `,"a":1`), after: object(2, "", `,"a":2`), open: true},
		"redacted and the same": {gates: []string{"a"}, rules: rules{redact: []string{"a"}, omit: []string{"b"}}, before: object(1, "", `,"a":1,"b":1`), after: object(2, "", `,"a":1,"b":2`)},
	} {
		t.Run(name, func(t *testing.T) {
			gates := frame.NewGates(gatesOf(t, tt.gates...), nil, tt.noop)
			if gates == nil {
				if len(tt.gates) > 0 || tt.noop {
					t.Fatal("no gates")
				}
				return
			}
			n := gatedBy(t, tt.rules, gates)
			before, after := normalised(t, n, tt.before), normalised(t, n, tt.after)
			if got := gates.Open(after.Hashes, before.Hashes); got != tt.open {
				t.Errorf("open is %t, want %t", got, tt.open)
			}
			if !gates.Open(after.Hashes, nil) {
				t.Error("what is not known is no change")
			}
			ungated := normalised(t, gatedBy(t, tt.rules, nil), tt.after)
			if ungated.Hashes != nil || !bytes.Equal(ungated.Data, after.Data) {
				t.Errorf("with gates %s, without %s", after.Data, ungated.Data)
			}
		})
	}
}

// TestGatesOfAnotherConfig: paths are never mistaken for each other, whatever gates an
// event was made with.
func TestGatesOfAnotherConfig(t *testing.T) {
	raw := []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"a":1,"b":1}`)
	first := frame.NewGates(gatesOf(t, "a"), nil, true)
	last := normalised(t, gatedBy(t, rules{}, first), raw).Hashes
	second := frame.NewGates(gatesOf(t, "b"), gatesOf(t, "a", "b"), false)
	now := normalised(t, gatedBy(t, rules{}, second), raw).Hashes
	if !second.Open(now, last) {
		t.Error("a path that was not looked at before counts as unchanged")
	}
	if want := []uint64{gatesOf(t, "a")[0].ID()}; !slices.Equal(second.Unchanged(now, last), want) {
		t.Errorf("unchanged are %v, want %v", second.Unchanged(now, last), want)
	}
}

// TestGatesAreKeyed: without the key an author of objects cannot find two values with one hash,
// of which the second would never be an event. Processes with the same key have the same hashes.
func TestGatesAreKeyed(t *testing.T) {
	raw := []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"a":1}`)
	gates := frame.NewGates(gatesOf(t, "a"), nil, true)
	with := func(key string) []uint64 {
		shape := frame.NewShape(frame.ShapeOptions{Gates: gates}, frame.NewRedactor([]byte(key)))
		return normalised(t, frame.NewNormaliser("v1", "Kind", frame.Options{Shape: func() *frame.Shape { return shape }}), raw).Hashes
	}
	one, again, other := with(shapeKey), with(shapeKey), with("another "+shapeKey)
	if !slices.Equal(one, again) {
		t.Errorf("hashes %x and %x with the same key", one, again)
	}
	if !gates.Open(other, one) || one[0] == other[0] || one[1] == other[1] {
		t.Errorf("hashes %x and %x with two keys", one, other)
	}
}

// TestGateHidesValues: a value that is redacted is not in the hash as it is, also where it
// is cut out, so that nobody finds it by trying.
func TestGateHidesValues(t *testing.T) {
	raw := []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"a":{"p":"` + canary + `"},"b":1}`)
	gates := frame.NewGates(gatesOf(t, "a.p"), nil, false)
	plain := normalised(t, gatedBy(t, rules{}, gates), raw).Hashes
	for name, r := range map[string]rules{"redact": {redact: []string{"a.p"}}, "redact and omit": {redact: []string{"a.p"}, omit: []string{"a"}}} {
		if hidden := normalised(t, gatedBy(t, r, gates), raw).Hashes; hidden[0] == plain[0] {
			t.Errorf("%s: the hash is that of the value", name)
		}
	}
}

// gateReference is what a gate asks about in a decoded object.
func gateReference(text string, object any) (values []any) {
	at := func(path string) []any { return leads(object, refPath(path)) }
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
			if path[0] == "*" || path[0] == "="+k {
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

// TestGatesEqualReference: random changes open random gates exactly if what the gates ask
// about is another one, decoded.
func TestGatesEqualReference(t *testing.T) {
	base := uint64(time.Now().UnixNano())
	opened := 0
	const pairs = 10_000
	for i := range uint64(pairs) {
		g := generator{rand.New(rand.NewPCG(base, i))}
		before := g.object(int(i))
		for len(before) > 4<<10 {
			before = g.object(int(i))
		}
		after := g.changed(t, before)
		var items []string
		for range g.IntN(3) {
			item := g.pick("spec", "status", "metadata", g.rule(false), g.rule(false), g.rule(false))
			if _, err := fieldpath.ParseGate(item, false); err == nil {
				items = append(items, item)
			}
		}
		noop := g.IntN(3) == 0
		gates := frame.NewGates(gatesOf(t, items...), nil, noop)
		if gates == nil {
			continue
		}
		n := gatedBy(t, rules{}, gates)
		was, is := normalised(t, n, before), normalised(t, n, after)
		old, now := decodeAny(closed(t, &was)), decodeAny(closed(t, &is))
		want := len(items) == 0 || slices.ContainsFunc(gatesOf(t, items...), func(one fieldpath.Gate) bool {
			return !reflect.DeepEqual(gateReference(one.String(), old), gateReference(one.String(), now))
		})
		if noop {
			want = want && !reflect.DeepEqual(withoutRevision(old), withoutRevision(now))
		}
		if got := gates.Open(is.Hashes, was.Hashes); got != want {
			t.Fatalf("seed %d/%d: gates %q, noop %t: open is %t, want %t\nfrom %s\nto   %s", base, i, items, noop, got, want, before, after)
		}
		if want {
			opened++
		}
	}
	if opened < pairs/10 || opened > pairs*9/10 {
		t.Errorf("seed %d: %d of %d pairs open the gates: nothing is proven", base, opened, pairs)
	}
}

// changed is the object's next state, in which little has changed.
func (g generator) changed(t *testing.T, raw []byte) []byte {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	metadata, _ := o["metadata"].(map[string]any)
	metadata["resourceVersion"] = fmt.Sprint(1001 + g.IntN(1000))
	switch g.IntN(8) {
	case 0:
		metadata["labels"] = g.value(1)
	case 1:
		o["data"] = g.value(1)
	case 2:
		o["x"] = g.value(1)
	case 3:
		metadata["generation"] = g.IntN(3)
	case 4:
		o["spec"], o["status"] = g.value(2), g.value(2)
	case 5:
		metadata["managedFields"] = g.value(1)
	case 6:
		o["stringData"] = g.value(1)
	}
	next, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func withoutRevision(object any) any {
	o, _ := object.(map[string]any)
	metadata, _ := o["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	return o
}

// BenchmarkGate compares what an object costs that gates look at with what it costs
// without; x-plain is how many times that is.
func BenchmarkGate(b *testing.B) {
	for name, gates := range map[string]*frame.Gates{
		"none":    nil,
		"three":   frame.NewGates(gatesOf(b, "spec", "metadata.labels", "status.phase"), nil, false),
		"presets": frame.NewGates(gatesOf(b, "spec", "status", "metadata"), nil, false),
		"noop":    frame.NewGates(nil, nil, true),
	} {
		n := gatedBy(b, rules{}, gates)
		b.Run(name, func(b *testing.B) { besidePlain(b, n) })
	}
}
