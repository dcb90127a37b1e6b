//go:build long

package change_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/informd/informd/pkg/fieldpath"
)

// randomPairs is how many pairs TestRandomPairs compares.
const randomPairs = 10_000

// TestRandomPairs compares random objects with what becomes of them by a few changes. The
// patch makes the one of the other, and the paths are those of the reference. In every
// fourth pair the second object is written by someone else, with other escapes and in
// another order: the patch is right all the same, and where nothing changed, nothing is
// found.
func TestRandomPairs(t *testing.T) {
	base := uint64(time.Now().UnixNano())
	for i := range uint64(randomPairs) {
		g := generator{rand.New(rand.NewPCG(base, i))}
		one := writer{seed: maphash.MakeSeed()}
		object := g.object()
		before := one.append(nil, object)
		after := one.append(nil, g.mutated(decode(t, before)))
		s := of(t, before, after)
		checkPatch(t, s, before, after)
		b, a := decode(t, before), decode(t, after)
		if s.Empty() != same(b, a) {
			t.Fatalf("seed %d/%d: empty: %v\nbefore %s\nafter  %s", base, i, s.Empty(), before, after)
		}
		var paths []string
		if err := json.Unmarshal(s.AppendPaths(nil), &paths); err != nil {
			t.Fatalf("seed %d/%d: %v", base, i, err)
		}
		if want := changed(b, a); !slices.Equal(paths, want) {
			t.Fatalf("seed %d/%d\nbefore %s\nafter  %s\ngot  %q\nwant %q", base, i, before, after, paths, want)
		}
		checkPaths(t, paths, before, after)
		if i%4 == 0 {
			other := writer{seed: maphash.MakeSeed(), escapes: true}
			checkPatch(t, of(t, before, other.append(nil, a)), before, after)
			if again := other.append(nil, b); !of(t, before, again).Empty() {
				t.Fatalf("seed %d/%d: differ\n%s\n%s", base, i, before, again)
			}
		}
	}
}

// checkPaths holds that each path is one that a config may have, and leads somewhere.
func checkPaths(t *testing.T, paths []string, before, after []byte) {
	t.Helper()
	for _, text := range paths {
		p, err := fieldpath.Parse(text)
		if err != nil || p.String() != text {
			t.Fatalf("path %s: %s, %v", text, p, err)
		}
		found := 0
		set := fieldpath.NewSet(p)
		count := func(fieldpath.Match) { found++ }
		set.Walk(before, count)
		set.Walk(after, count)
		if found == 0 {
			t.Fatalf("path %s leads nowhere\nbefore %s\nafter  %s", text, before, after)
		}
	}
}

// generator makes random values.
type generator struct{ *rand.Rand }

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g generator) key() string {
	return g.pick("", "~", "/", "~1", "a.b/c", `"`, `\`, "é", "😀", "-", "0", "1", "*", "[]", "a", "b", "c", "spec", "metadata", "resourceVersion", "managedFields", "a b", "\n", "<&>", "\u2028")
}

func (g generator) value(depth int) any {
	const deepest = 4
	switch kind := g.IntN(9); {
	case kind == 0:
		return nil
	case kind == 1:
		return g.IntN(2) == 0
	case kind == 2:
		return json.Number(g.pick("0", "-0", "1", "12", "1.0", "1e3", "123456789012345678901234567890"))
	case kind == 3 || depth > deepest:
		return g.pick("", `"`, `\`, "é", "a\nb", "}{][,:", "01234567", "012345678", "\x7f<>&", "😀x", "null")
	case kind < 6:
		list := []any{}
		for range g.IntN(5) {
			list = append(list, g.value(depth+1))
		}
		return list
	default:
		object := make(map[string]any)
		for range g.IntN(6) {
			object[g.key()] = g.value(depth + 1)
		}
		if g.IntN(30) == 0 { // more than few
			for i := range 40 {
				object[fmt.Sprint(i)] = i%2 == 0
			}
		}
		return object
	}
}

func (g generator) object() map[string]any {
	object := make(map[string]any)
	for range g.IntN(6) {
		object[g.key()] = g.value(1)
	}
	if g.IntN(2) == 0 {
		object["metadata"] = map[string]any{"resourceVersion": g.pick("1", "2"), "managedFields": g.value(3), "labels": g.value(3)}
	}
	return object
}

// mutated returns what becomes of the object by none, one or a few changes.
func (g generator) mutated(object any) any {
	for range g.IntN(4) {
		object = g.mutate(object, 0)
	}
	return object
}

func (g generator) mutate(v any, depth int) any {
	if depth > 0 && g.IntN(6) == 0 {
		return g.value(depth)
	}
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		switch {
		case len(keys) == 0 || g.IntN(5) == 0:
			v[g.key()] = g.value(depth + 1)
		case g.IntN(5) == 0:
			delete(v, g.pick(keys...))
		default:
			key := g.pick(keys...)
			v[key] = g.mutate(v[key], depth+1)
		}
		return v
	case []any:
		at := g.IntN(len(v) + 1)
		switch {
		case len(v) == 0 || g.IntN(4) == 0:
			return slices.Insert(v, at, g.value(depth+1))
		case g.IntN(4) == 0:
			return slices.Delete(v, at/2, at)
		case g.IntN(4) == 0:
			g.Shuffle(len(v), func(i, k int) { v[i], v[k] = v[k], v[i] })
		default:
			at %= len(v)
			v[at] = g.mutate(v[at], depth+1)
		}
		return v
	default:
		return g.value(depth)
	}
}

// writer writes equal values alike: the order of keys depends on the writer, and so do
// escapes.
type writer struct {
	seed    maphash.Seed
	escapes bool
}

func (w writer) append(dst []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			return cmp.Compare(maphash.String(w.seed, a), maphash.String(w.seed, b))
		})
		dst = append(dst, '{')
		for i, key := range keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = w.append(append(w.text(dst, key), ':'), v[key])
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = w.append(dst, element)
		}
		return append(dst, ']')
	case string:
		return w.text(dst, v)
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return append(dst, raw...)
	}
}

func (w writer) text(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for i, r := range text {
		switch {
		case r == '"' || r == '\\':
			dst = append(append(dst, '\\'), string(r)...)
		case r < ' ' || w.escapes && r < 0x10000 && (maphash.String(w.seed, text)>>(i%64))&1 == 1:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = append(dst, string(r)...)
		}
	}
	return append(dst, '"')
}
