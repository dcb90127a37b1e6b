package change_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/internal/change"
)

func TestOf(t *testing.T) {
	for name, tt := range map[string]struct{ before, after, paths, patch string }{
		"nothing": {`{"a":1}`, `{"a":1}`, `[]`, `[]`},
		"value": {
			`{"spec":{"replicas":1,"a":true}}`, `{"spec":{"replicas":2,"a":true}}`,
			`["spec.replicas"]`, `[{"op":"replace","path":"/spec/replicas","value":2}]`,
		},
		"came and went": {
			`{"a":{"b":{"c":1}},"d":0}`, `{"d":0,"e":{"f":{"g":[]}}}`,
			`["a","e"]`, `[{"op":"add","path":"/e","value":{"f":{"g":[]}}},{"op":"remove","path":"/a"}]`,
		},
		"first, middle, last came": {
			`{"b":1,"d":2}`, `{"a":{},"b":1,"c":[],"d":2,"e":null}`,
			`["a","c","e"]`, `[{"op":"add","path":"/a","value":{}},{"op":"add","path":"/c","value":[]},{"op":"add","path":"/e","value":null}]`,
		},
		"last went":         {`{"a":1,"b":2}`, `{"a":1}`, `["b"]`, `[{"op":"remove","path":"/b"}]`},
		"all went":          {`{"a":{"b":2}}`, `{"a":{}}`, `["a.b"]`, `[{"op":"remove","path":"/a/b"}]`},
		"another type":      {`{"a":{"b":2}}`, `{"a":["b",2]}`, `["a"]`, `[{"op":"replace","path":"/a","value":["b",2]}]`},
		"null":              {`{"a":null}`, `{"a":"null"}`, `["a"]`, `[{"op":"replace","path":"/a","value":"null"}]`},
		"null came":         {`{}`, `{"a":null}`, `["a"]`, `[{"op":"add","path":"/a","value":null}]`},
		"longer number":     {`{"a":1,"b":2}`, `{"a":12,"b":2}`, `["a"]`, `[{"op":"replace","path":"/a","value":12}]`},
		"shorter number":    {`{"a":12}`, `{"a":1}`, `["a"]`, `[{"op":"replace","path":"/a","value":1}]`},
		"numbers by text":   {`{"a":1,"b":1e2}`, `{"a":1.0,"b":100}`, `["a","b"]`, `[{"op":"replace","path":"/a","value":1.0},{"op":"replace","path":"/b","value":100}]`},
		"order":             {`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`, `[]`, `[]`},
		"order and value":   {`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":4,"c":2},"a":1}`, `["b.d"]`, `[{"op":"replace","path":"/b/d","value":4}]`},
		"escapes":           {`{"a":"é\u000a\/","\u0062":1}`, `{"a":"\u00e9\n/","b":1}`, `[]`, `[]`},
		"half pairs":        {`{"a":"\ud800","b":"\udc01x","c":"\ud800"}`, `{"a":"\ud801","b":"\udc02x","c":"\ud800"}`, `["a","b"]`, `[{"op":"replace","path":"/a","value":"\ud801"},{"op":"replace","path":"/b","value":"\udc02x"}]`},
		"whole pairs":       {`{"a":"\ud83d\ude00"}`, `{"a":"😀"}`, `[]`, `[]`},
		"escaped key":       {`{"\u0062":1}`, `{"b":2}`, `["b"]`, `[{"op":"replace","path":"/b","value":2}]`},
		"brackets in text":  {`{"a":"}]\\\"{","b":1}`, `{"a":"}]\\\"{[","b":1}`, `["a"]`, `[{"op":"replace","path":"/a","value":"}]\\\"{["}]`},
		"prefix of a text":  {`{"a":"x","b":"y"}`, `{"a":"xx","b":"y"}`, `["a"]`, `[{"op":"replace","path":"/a","value":"xx"}]`},
		"element":           {`{"a":[1,2,3]}`, `{"a":[1,5,3]}`, `["a[]"]`, `[{"op":"replace","path":"/a/1","value":5}]`},
		"in an element":     {`{"a":[{"b":1},{"b":2,"c":3}]}`, `{"a":[{"b":1},{"b":5,"c":3}]}`, `["a[].b"]`, `[{"op":"replace","path":"/a/1/b","value":5}]`},
		"in elements":       {`{"a":[{"b":1},{"b":2}]}`, `{"a":[{"b":3},{"b":4}]}`, `["a[].b"]`, `[{"op":"replace","path":"/a/0/b","value":3},{"op":"replace","path":"/a/1/b","value":4}]`},
		"elements went":     {`{"a":[1,2,3,4]}`, `{"a":[1,4]}`, `["a[]"]`, `[{"op":"remove","path":"/a/2"},{"op":"remove","path":"/a/1"}]`},
		"elements came":     {`{"a":[1,4]}`, `{"a":[1,2,3,4]}`, `["a[]"]`, `[{"op":"add","path":"/a/1","value":2},{"op":"add","path":"/a/2","value":3}]`},
		"at the end":        {`{"a":[1]}`, `{"a":[1,2]}`, `["a[]"]`, `[{"op":"add","path":"/a/1","value":2}]`},
		"other and fewer":   {`{"a":[0,1,2,3,9]}`, `{"a":[0,5,9]}`, `["a[]"]`, `[{"op":"replace","path":"/a/1","value":5},{"op":"remove","path":"/a/3"},{"op":"remove","path":"/a/2"}]`},
		"emptied":           {`{"a":[1,[2]]}`, `{"a":[]}`, `["a[]"]`, `[{"op":"remove","path":"/a/1"},{"op":"remove","path":"/a/0"}]`},
		"arrays in arrays":  {`{"a":[[1],[2]]}`, `{"a":[[1],[2,3]]}`, `["a[][]"]`, `[{"op":"add","path":"/a/1/1","value":3}]`},
		"repeated elements": {`{"a":[1,1,1]}`, `{"a":[1,1]}`, `["a[]"]`, `[{"op":"remove","path":"/a/2"}]`},
		"hostile keys": {
			`{"m":{"":1,"~":1,"/":1,"a.b/~c":1,"\"":1,"*":1,"-":1,"é":1,"\\":1,"[]":1,"\u0001":1,"0":1}}`,
			`{"m":{"":2,"~":2,"/":2,"a.b/~c":2,"\"":2,"*":2,"-":2,"é":2,"\\":2,"[]":2,"\u0001":2,"0":2}}`,
			`["m.-","m.0","m[\"\"]","m[\"*\"]","m[\"/\"]","m[\"[]\"]","m[\"\\\"\"]","m[\"\\\\\"]","m[\"\\u0001\"]","m[\"a.b/~c\"]","m[\"~\"]","m[\"é\"]"]`,
			`[{"op":"replace","path":"/m/","value":2},{"op":"replace","path":"/m/~0","value":2},{"op":"replace","path":"/m/~1","value":2},{"op":"replace","path":"/m/a.b~1~0c","value":2},{"op":"replace","path":"/m/\"","value":2},{"op":"replace","path":"/m/*","value":2},{"op":"replace","path":"/m/-","value":2},{"op":"replace","path":"/m/é","value":2},{"op":"replace","path":"/m/\\","value":2},{"op":"replace","path":"/m/[]","value":2},{"op":"replace","path":"/m/\u0001","value":2},{"op":"replace","path":"/m/0","value":2}]`,
		},
		"annotation": {
			`{"metadata":{"annotations":{"a.b/c":"x"}}}`, `{"metadata":{"annotations":{"a.b/c":"y"}}}`,
			`["metadata.annotations[\"a.b/c\"]"]`, `[{"op":"replace","path":"/metadata/annotations/a.b~1c","value":"y"}]`,
		},
		"says nothing": {
			`{"metadata":{"resourceVersion":"1","managedFields":[{"time":"1"}]}}`, `{"metadata":{"resourceVersion":"2","managedFields":[{"time":"2"}]}}`,
			`[]`, `[{"op":"replace","path":"/metadata/resourceVersion","value":"2"},{"op":"replace","path":"/metadata/managedFields/0/time","value":"2"}]`,
		},
		"fields managed no more": {`{"metadata":{"managedFields":[]}}`, `{"metadata":{}}`, `[]`, `[{"op":"remove","path":"/metadata/managedFields"}]`},
		"looks alike": {
			`{"metadata":{"resourceVersions":1,"managedFieldsNot":1,"labels":{"metadata.resourceVersion":"1"}},"metadata.resourceVersion":1}`,
			`{"metadata":{"resourceVersions":2,"managedFieldsNot":2,"labels":{"metadata.resourceVersion":"2"}},"metadata.resourceVersion":2}`,
			`["[\"metadata.resourceVersion\"]","metadata.labels[\"metadata.resourceVersion\"]","metadata.managedFieldsNot","metadata.resourceVersions"]`,
			`[{"op":"replace","path":"/metadata/resourceVersions","value":2},{"op":"replace","path":"/metadata/managedFieldsNot","value":2},{"op":"replace","path":"/metadata/labels/metadata.resourceVersion","value":"2"},{"op":"replace","path":"/metadata.resourceVersion","value":2}]`,
		},
		"twice, last alike":  {`{"a":1,"a":2}`, `{"a":3,"b":4,"\u0061":2}`, `["b"]`, `[{"op":"add","path":"/b","value":4}]`},
		"twice, first alike": {`{"a":1,"a":2}`, `{"a":1}`, `["a"]`, `[{"op":"replace","path":"/a","value":1}]`},
		"twice, first other": {`{"a":1,"a":2}`, `{"a":5,"a":2}`, `[]`, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := []byte(tt.before), []byte(tt.after)
			s := of(t, before, after)
			if got := string(s.AppendPaths([]byte("> "))); got != "> "+tt.paths {
				t.Errorf("paths\ngot  %s\nwant %s", got[2:], tt.paths)
			}
			if got := string(s.AppendPatch([]byte("> "))); got != "> "+tt.patch {
				t.Errorf("patch\ngot  %s\nwant %s", got[2:], tt.patch)
			}
			if s.Empty() != (tt.patch == "[]") {
				t.Errorf("empty: %v", s.Empty())
			}
			checkPatch(t, s, before, after)
		})
	}
}

func of(tb testing.TB, before, after []byte) *change.Set {
	tb.Helper()
	s, err := change.Of(before, after)
	if err != nil {
		tb.Fatalf("%v\n%s\n%s", err, before, after)
	}
	return s
}

func TestOfRefuses(t *testing.T) {
	const good = `{"a":[1,{"b":2}],"c":"x"}`
	for _, bad := range []string{
		``, `[]`, `1`, `"a"`, `{`, `{"a"`, `{"a":`, `{"a":}`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a":1}}`, `{"a":1} `, `{ "a":1}`, `{a:1}`,
		`{"a" 1}`, `{"a":[1,{"b":2}],"c":"x"`, `{"a":[1,{"b":2}],"c":"x`, `{"a":[1,{"b":2],"c":"x"}`, `{"a":[1,{"b"}],"c":"x"}`, `{"a":[1,],"c":"x"}`, `{"a":[,],"c":"x"}`,
		`{"a":[1,{"b":2]],"c":"x"}`, `{"c":"x\`, `{"c":"x","`,
	} {
		if _, err := change.Of([]byte(good), []byte(bad)); err == nil {
			t.Errorf("after %s: no error", bad)
		}
		if _, err := change.Of([]byte(bad), []byte(good)); err == nil {
			t.Errorf("before %s: no error", bad)
		}
	}
}

// TestDepth is about objects that nest as deep as the normaliser lets them.
func TestDepth(t *testing.T) {
	nested := func(depth int, inner string) []byte {
		return []byte(strings.Repeat(`{"a":[`, depth/2) + inner + strings.Repeat(`]}`, depth/2))
	}
	for depth, want := range map[int]int{60: 60, 500: 500, 10_000: 16} {
		before, after := nested(depth, "1"), nested(depth, "2")
		s := of(t, before, after)
		var paths []string
		if err := json.Unmarshal(s.AppendPaths(nil), &paths); err != nil || len(paths) != 1 {
			t.Fatalf("%d levels: %q, %v", depth, paths, err)
		}
		if got := strings.Count(paths[0], "a") + strings.Count(paths[0], "[]"); got != want {
			t.Errorf("%d levels: the path has %d steps, want %d", depth, got, want)
		}
		checkPatch(t, s, before, after)
	}
}

// TestScanned is about objects that nest as deep as the normaliser lets them. However they
// do that, no more is scanned than so many times what there is.
func TestScanned(t *testing.T) {
	nested := func(depth int, open, inner, shut string) []byte {
		return []byte(`{"a":` + strings.Repeat(open, depth) + inner + strings.Repeat(shut, depth) + "}")
	}
	filler := func(text string) string { return strings.Repeat(text, 1<<16/len(text)) }
	for name, pair := range map[string]func(value string) []byte{
		"all at the bottom":        func(value string) []byte { return nested(9_999, "[", filler(`"x",`)+value, "]") },
		"in front, at every level": func(value string) []byte { return nested(9_999, `["`+strings.Repeat("x", 15)+`",`, value, "]") },
		"behind, at every level": func(value string) []byte {
			return nested(9_999, `{"a":`, value, `,"b":"`+strings.Repeat("x", 15)+`"}`)
		},
		"beside a deep one": func(value string) []byte { return nested(9_999, "[", value, "]") },
		"other strings":     func(value string) []byte { return nested(9_998, "[", filler(`"`+value+`",`)+value, "]") },
		"empty ones":        func(value string) []byte { return nested(9_997, "[", filler("[[],{}],")+value, "]") },
	} {
		t.Run(name, func(t *testing.T) {
			before, after := pair("1"), pair("2")
			most := max(1<<20, 16*(len(before)+len(after)))
			if got := change.Scanned(before, after); got > most {
				t.Errorf("%d bytes were scanned of %d, want at most %d", got, len(before)+len(after), most)
			}
			if s := of(t, before, after); s.Empty() {
				t.Error("nothing has changed")
			}
		})
	}
}

// TestManyMembers is about objects too large for what is done with small ones.
func TestManyMembers(t *testing.T) {
	object := func(from, to, step int, more string) []byte {
		b := []byte(`{"data":{`)
		for i := from; i != to; i += step {
			b = fmt.Appendf(b, `"key-%d":%d,`, i, i/10)
		}
		return append(append(b, more...), "}}"...)
	}
	before, after := object(0, 20_000, 1, `"x":1,"y":1`), object(20_100, 100, -1, `"y":1,"x":2,"key-500":50,"x":1`)
	s := of(t, before, after)
	if got, want := bytes.Count(s.AppendPaths(nil), []byte("data.")), 202; got != want {
		t.Errorf("%d paths, want %d", got, want)
	}
	checkPatch(t, s, before, after)
	if s := of(t, before, before); !s.Empty() {
		t.Error("an object differs from itself")
	}
}

// TestMuchChanged is about objects of which the patch would be longer than they are.
func TestMuchChanged(t *testing.T) {
	key := strings.Repeat("k", 10_000)
	for name, one := range map[string]string{"elements": `[%s]`, "below a long key": `{"` + key + `":[%s]}`} {
		before := fmt.Appendf(nil, `{"a":{"b":1},"data":`+one+`}`, strings.Repeat("1,", 100_000)+"1")
		after := fmt.Appendf(nil, `{"a":{"b":2},"data":`+one+`}`, strings.Repeat("2,", 100_000)+"2")
		s := of(t, before, after)
		if got, want := string(s.AppendPaths(nil)), `["a","data"]`; got != want {
			t.Errorf("%s: paths %.1000s, want %s", name, got, want)
		}
		if got, most := len(s.AppendPatch(nil)), len(after)+200; got > most {
			t.Errorf("%s: the patch has %d bytes, want at most %d", name, got, most)
		}
		checkPatch(t, s, before, after)
	}
}

func checkPatch(tb testing.TB, s *change.Set, before, after []byte) {
	tb.Helper()
	patch := s.AppendPatch(nil)
	got, err := applyPatch(decode(tb, before), patch)
	if err != nil {
		tb.Fatalf("%v\nbefore %s\nafter  %s\npatch  %s", err, before, after, patch)
	}
	if want := decode(tb, after); !same(got, want) {
		tb.Fatalf("the patch does not make it\nbefore %s\nafter  %s\npatch  %s", before, after, patch)
	}
}

func FuzzOf(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":[1,{"b":2}],"c":"x"}`, `{"a":[{"b":3}],"\u0063":"y"}`},
		{`{"":{"~":1},"/":[[]]}`, `{"":{"~":{}},"/":[[],[0]]}`},
		{`{"a":1,"a":2}`, `{"a":"\ud800","b":null}`},
		{`{"a":[1,2`, `{"a":[1,2]}`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, before, after []byte) {
		s, err := change.Of(before, after)
		if err == nil {
			s.AppendPaths(nil)
			s.AppendPatch(nil)
		}
		before, okBefore := normal(before)
		after, okAfter := normal(after)
		if !okBefore || !okAfter {
			return
		}
		s = of(t, before, after)
		if paths := s.AppendPaths(nil); !json.Valid(paths) {
			t.Fatalf("the paths are not JSON: %s", paths)
		}
		checkPatch(t, s, before, after)
	})
}

// normal brings an object on one line.
func normal(raw []byte) ([]byte, bool) {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.Bytes()[0] != '{' {
		return nil, false
	}
	return b.Bytes(), true
}
