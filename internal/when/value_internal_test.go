package when

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	strictjson "sigs.k8s.io/json"
)

// reference is the text in Go's maps and slices, as Kubernetes decodes it: what to compare with.
func reference(text []byte) (any, error) {
	var value any
	err := kubejson.Unmarshal(text, &value)
	return value, err
}

// expressions reach everything that a value can be asked.
func expressions() []string {
	return []string{
		`object.a`, `object.b.c`, `object.b.c.a`, `object["b"]["a"]`, `object.c[0]`, `object.c[1].a`, `object.c[0][1]`, `object[0]`, `object.a.b.c.a.b`,
		`object["ü"]`, `object["q\"\\"]`, `object["d"]`, `object[object.a]`, `object.b[object.a]`,
		`has(object.a)`, `has(object.b.c)`, `has(object.b.c.a)`, `has(object.c)`, `"a" in object`, `"b" in object.b`, `1 in object.c`, `object.a in object.c`,
		`"ü" in object`, `1 in object`, `size(object)`, `size(object.a)`, `size(object.b)`, `size(object.c)`, `object.b.size() > 1`,
		`object == object`, `object.a == object.b`, `object.b == object.c`, `object.a == 1`, `object.a == 1.0`, `object.a != "x"`, `object.a == null`,
		`object.b == {}`, `object.b == {"a": 1}`, `{"a": 1} == object.b`, `object.c == []`, `object.c == [1, 2]`, `[1] == object.c`, `object.a == true`,
		`object.a < 3`, `object.a > 2.5`, `object.a + 1`, `object.a + 1.5`, `-object.a`, `object.a + "x"`, `object.a ? 1 : 2`, `!object.a`,
		`object.all(k, k != "x")`, `object.exists(k, object[k] == 1)`, `object.b.exists_one(k, k == "a")`, `object.map(k, object[k]).exists(v, v == 1)`,
		`object.filter(k, k < "c").size()`, `object.c.map(x, x).size()`, `type(object.c) == list ? object.c.map(x, x) : []`, `object.c.filter(x, type(x) == int)`, `object.c.all(x, x == x)`, `object.c + object.c`,
		`object.all(k, v, object[k] == v)`, `object.c.all(i, v, object.c[i] == v)`, `object.b.transformMap(k, v, v).size()`, `object.transformList(k, v, v).size()`,
		`object.?a.orValue("none")`, `object.?b.?c.?a.hasValue()`, `object[?"a"].orValue(1)`, `object.?c[?5].hasValue()`, `optional.ofNonZeroValue(object.b).hasValue()`,
		`type(object)`, `type(object.a)`, `type(object.b) == map`, `type(object.c) == list`, `type(object.a) == int`, `type(object.a) == double`,
		`int(object.a)`, `double(object.a)`, `string(object.a)`, `bool(object.a)`, `dyn(object.b)`, `string(object.b)`,
		`object.a.startsWith("a")`, `object.a.matches("^[a-z]+$")`, `object.a.size()`, `object.a.contains("\u00fc")`,
		`object.c.isSorted()`, `object.c.sum()`, `object.c.max()`, `object.c.includes(1)`, `object.c.indexOf(object.a)`, `object.c.distinct().size()`,
		`sets.contains(object.c, [1])`, `sets.equivalent(object.c, object.c)`, `"%s".format([object.a])`, `object.c.flatten().size()`, `object.c.reverse() == object.c`,
		`object`, `[object, object.a]`, `{"x": object}`, `object == {"a": object.a, "b": object.b}`,
	}
}

// source writes random JSON without white space outside of strings.
type source struct {
	*rand.Rand
	b strings.Builder
}

func (s *source) text(what string) { s.b.WriteString(what) }

func (s *source) value(depth int) {
	kind := s.IntN(9)
	if depth > 4 {
		kind = s.IntN(5)
	}
	switch kind {
	case 0, 1:
		s.text([]string{"0", "1", "2", "-1", "-0", "1.0", "2.5", "-1.5e3", "1E2", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "0.1", "1e-7"}[s.IntN(14)])
	case 2, 3:
		s.text([]string{`""`, `"a"`, `"b"`, `"abc"`, `"1"`, `"x\"y\\"`, `"\u00fc\n"`, `"ü"`, `"\ud83d\ude00"`, `"\ud800"`, `"{[,:"`, `"\\"`, `"\\\""`}[s.IntN(13)])
	case 4:
		s.text([]string{"true", "false", "null"}[s.IntN(3)])
	case 5, 6:
		s.text("[")
		for i := range s.IntN(4) {
			if i > 0 {
				s.text(",")
			}
			s.value(depth + 1)
		}
		s.text("]")
	default:
		s.object(depth)
	}
}

func (s *source) object(depth int) {
	keys := []string{`"a"`, `"b"`, `"c"`, `"d"`, `"ü"`, `"q\"\\"`, `"\u0061x"`, `""`}
	if s.IntN(20) == 0 { // enough for an index
		for i := range 30 {
			keys = append(keys, fmt.Sprintf(`"key%d"`, i))
		}
	}
	s.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	s.text("{")
	for i, key := range keys[:s.IntN(len(keys)+1)] {
		if i > 0 {
			s.text(",")
		}
		s.text(key)
		s.text(":")
		s.value(depth + 1)
	}
	s.text("}")
}

// TestEqualsDecoded: whatever an expression asks, it gets of the text what it gets of
// the same text decoded.
func TestEqualsDecoded(t *testing.T) {
	all := programs(t, expressions(), "object")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &source{Rand: rand.New(rand.NewPCG(seed, 0))}
	answered := 0
	for range 600 {
		s.b.Reset()
		s.object(0)
		text := []byte(s.b.String())
		want, err := reference(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		// One value for all expressions, as in informd.
		value := lazyValue(text)
		order := expressions()
		s.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, expression := range order {
			got, _, gotErr := all[expression].Eval(map[string]any{"object": value})
			wanted, _, wantErr := all[expression].Eval(map[string]any{"object": want})
			if (gotErr == nil) != (wantErr == nil) || gotErr != nil && kind(gotErr) != kind(wantErr) {
				t.Fatalf("%s of %s: error %v, want %v", expression, text, gotErr, wantErr)
			}
			if gotErr != nil {
				continue
			}
			answered++
			if got.Type().TypeName() != wanted.Type().TypeName() || !same(got, wanted) || !same(wanted, got) {
				t.Fatalf("%s of %s: %v, want %v", expression, text, got, wanted)
			}
		}
	}
	if answered < 600 {
		t.Errorf("only %d expressions had a result: the test tests nothing", answered)
	}
}

// same compares two results. One of a map in an order is not the other's.
func same(a, b ref.Val) bool {
	return types.Equal(a, b) == types.True
}

// kind is what an error says, without the values that it prints.
func kind(err error) string {
	message, _, _ := strings.Cut(err.Error(), ":")
	return strings.TrimSpace(message)
}

// TestDuplicateKeys: the first one counts, for every question.
func TestDuplicateKeys(t *testing.T) {
	value, ok := lazyValue([]byte(`{"a":1,"a":2,"b":3}`)).(traits.Mapper)
	if !ok {
		t.Fatal("no map")
	}
	if got := value.Get(types.String("a")); got != types.Int(1) {
		t.Errorf("a is %v", got)
	}
	if got := value.Size(); got != types.Int(2) {
		t.Errorf("size %v", got)
	}
}

// TestDepth: what nests without end is an error, at no great cost.
func TestDepth(t *testing.T) {
	const n = 1_000_000
	deepList := []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
	if got := lazyValue(deepList); !types.IsError(got) || !strings.Contains(fmt.Sprint(got), "deeper than") {
		t.Errorf("a deep list is a %s", got.Type().TypeName())
	}
	value := lazyValue([]byte(strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)))
	for range 5000 {
		m, ok := value.(traits.Mapper)
		if !ok {
			break
		}
		value, _ = m.Find(types.String("a"))
	}
	if !types.IsError(value) || !strings.Contains(fmt.Sprint(value), "deeper than") {
		t.Errorf("the innermost value is %v", value)
	}
}

// TestOnlyWhatIsRead: the cost of a member does not grow with what is beside it.
func TestOnlyWhatIsRead(t *testing.T) {
	text := []byte(`{"spec":{"list":[` + strings.Repeat(`{"name":"x","value":{"a":[1,2,3]}},`, 10_000) + `0]},"status":{"phase":"Running"}}`)
	got := testing.AllocsPerRun(10, func() {
		status, ok := lazyValue(text).(traits.Mapper).Get(types.String("status")).(traits.Mapper)
		if !ok || status.Get(types.String("phase")) != types.String("Running") {
			t.Fatal("not found")
		}
	})
	if got > 12 {
		t.Errorf("%v allocations for one text", got)
	}
}

// FuzzValue: JSON is what it is decoded, and nothing panics.
func FuzzValue(f *testing.F) {
	for _, text := range []string{
		`{"a":1}`, `{"a":{"b":[1,2.5,"x",null,true]}}`, `{"a":1e999}`, `{"a":1,"a":2}`, ` {} `, `[[],[[1]],{}]`, `{"a":{"b":[]},"c\"":-0.5}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var compact bytes.Buffer
		if json.Compact(&compact, text) != nil || !utf8.Valid(text) { // the API server writes neither
			return
		}
		text = compact.Bytes()
		value := lazyValue(text)
		touch(value, 0)
		want, err := reference(text)
		if err != nil || ambiguous(text) {
			return
		}
		reference := types.DefaultTypeAdapter.NativeToValue(want)
		if types.Equal(value, reference) != types.True || types.Equal(reference, value) != types.True {
			t.Errorf("%q is %v, want %v", text, value, reference)
		}
	})
}

// touch asks a value for everything.
func touch(value ref.Val, depth int) {
	if value == nil || depth > 20 {
		return
	}
	value.Equal(value)
	value.ConvertToType(types.StringType)
	value.ConvertToType(types.TypeType)
	value.Value()
	switch v := value.(type) {
	case traits.Mapper:
		v.Size()
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			v.Contains(key)
			touch(v.Get(key), depth+1)
		}
		v.Find(types.Int(1))
		v.Find(types.String("none"))
	case traits.Lister:
		for i := range v.Size().(types.Int) { //nolint:forcetypeassert // or it is wrong
			touch(v.Get(i), depth+1)
		}
	}
}

// ambiguous reports whether a key is twice in one object, of which either may count, or a value may nest deeper than
// is read.
func ambiguous(text []byte) bool {
	strict, err := strictjson.UnmarshalStrict(text, new(any), strictjson.DisallowDuplicateFields)
	return err != nil || len(strict) > 0 || bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("[")) > 500
}
