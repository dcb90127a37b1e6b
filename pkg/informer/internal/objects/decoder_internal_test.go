package objects

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

func onePod(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../testdata/pod.json")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(text)
}

// TestDecoder expects the values of apimachinery's json.Unmarshal, and which objects the decoder
// leaves to it.
func TestDecoder(t *testing.T) {
	pod := onePod(t)
	for name, tt := range map[string]struct {
		text  string
		taken bool
	}{
		"a Pod":                   {string(pod), true},
		"empty":                   {`{}`, true},
		"literals":                {`{"a":null,"b":[true,false,{},[]],"":""}`, true},
		"integers":                {`{"a":[0,-0,7,-7,300,123456789012345678,9223372036854775807,-9223372036854775808]}`, true},
		"zeros":                   {`{"a":[-0.0,0.0,-0e0,0E5,-0.0e-7]}`, true},
		"the same text twice":     {`{"a":"\u0061","\u0061b":"a","ab":"\u0061b","n":"\u0000","\u0000":""}`, true},
		"surrogates":              {`{"a":"\ud83d\ude00 \ud83d\u0041 \udc00\ud83d \uD83D\uDE00"}`, true},
		"UTF-8 across an escape":  {"{\"a\":\"\xc3\\n\xa9\"}", true},
		"floats":                  {`{"a":[0.5,-1.25,1e3,1E-3,9223372036854775808,123456789012345678901234567890]}`, true},
		"a key twice":             {`{"a":1,"b":{"c":2},"a":{"d":3},"b":4}`, true},
		"escapes":                 {`{"\u0061\n":"\"\\\/\b\f\n\r\t\u0026\u00e9\ud83d\ude00","é":"日本 €\u2028"}`, true},
		"a lone surrogate":        {`{"a":"\ud800"}`, true},
		"invalid UTF-8":           {"{\"a\":\"x\xff\\n\xc3\"}", true},
		"a long text":             {`{"a":"` + strings.Repeat("x", 10*longestWord) + `"}`, true},
		"deep":                    {strings.Repeat(`{"a":[`, deepest/2) + strings.Repeat(`]}`, deepest/2), true},
		"too deep":                {strings.Repeat(`{"a":[`, deepest) + strings.Repeat(`]}`, deepest), false},
		"white space":             {`{"a": 1}`, false},
		"a line":                  {"{\"a\":1}\n", false},
		"a text":                  {`"a"`, false},
		"null":                    {`null`, false},
		"no text":                 {``, false},
		"a control character":     {"{\"a\":\"\n\"}", false},
		"one in a long text":      {"{\"a\":\"12345678\x1f2345678\"}", false},
		"a wrong escape":          {`{"a":"\x"}`, false},
		"a wrong code":            {`{"a":"\u00g0"}`, false},
		"a short code":            {`{"a":"\u00"}`, false},
		"a leading zero":          {`{"a":01}`, false},
		"a sign alone":            {`{"a":-}`, false},
		"no digits":               {`{"a":1.}`, false},
		"too large":               {`{"a":1e999}`, false},
		"a wrong literal":         {`{"a":nul}`, false},
		"no value":                {`{"a":}`, false},
		"no key":                  {`{1:2}`, false},
		"a comma too much":        {`{"a":1,}`, false},
		"one too much in a list":  {`{"a":[1,]}`, false},
		"no comma":                {`{"a":1"b":2}`, false},
		"cut":                     {`{"a":[1,"b`, false},
		"more behind it":          {`{"a":1}}`, false},
		"another bracket":         {`{"a":[1}]`, false},
		"no colon":                {`{"a"1}`, false},
		"a number and a letter":   {`{"a":1x}`, false},
		"a number of a long text": {`{"a":1234567890123456789x}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if taken := sameDecoded(t, []byte(tt.text)); taken != tt.taken {
				t.Errorf("taken: %v, want %v", taken, tt.taken)
			}
		})
	}
}

// sameDecoded reports whether a new decoder takes an object, see [same].
func sameDecoded(t *testing.T, text []byte) (taken bool) {
	t.Helper()
	var d decoder
	var shared words
	for range 4 { // texts are new, seen, made known, and known
		_, taken = same(t, &d, &shared, text)
	}
	return taken
}

// same decodes an object. If the decoder takes it, same expects the value of apimachinery's
// json.Unmarshal.
func same(t *testing.T, d *decoder, shared *words, text []byte) (o map[string]any, taken bool) {
	t.Helper()
	data := bytes.Clone(text)
	o, taken = d.decode(data, shared)
	if !taken {
		return nil, false
	}
	clear(data) // which the object must not share
	var want map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatalf("%q is decoded, in spite of %v", text, err)
	}
	if !identical(want, o) {
		t.Fatalf("%q: got %#v, want %#v", text, o, want)
	}
	return o, true
}

// identical is reflect.DeepEqual for decoded JSON, with the sign of zero. (cmp takes exponential
// time for deep objects.)
func identical(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		for key, value := range a {
			if other, ok := b[key]; !ok || !identical(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && (a == nil) == (b == nil) && slices.EqualFunc(a, b, identical)
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	default:
		return a == b // a string, an int64, a bool or nil
	}
}

// FuzzDecoder decodes two objects with the same memory and words, each twice.
func FuzzDecoder(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2,0.5,1e9,true,false,null,"x",{},[],{"b":{"a":"\u0026\"\n"}}],"a":2}`, `{"a":" `, `{"a":01}`, "{\"\xff\":\"\\ud800\"}", `{"a":1} `,
		`{"a":"\u0061","\u0061":"\u0000\ud83d\ude00\udc00\/","":{"":[[],{}]}}`, "{\"\x7f\":\"é\u2028\",\"a\":\"12345678\xc3\"}",
		`{"a":[-0,-0.0,0e0,-0E-9,9223372036854775807,-9223372036854775809,1E+2,1e999]}`, `{"a":{"b":1,"b":{"c":[]}},"a":null}`,
	} {
		f.Add([]byte(seed), []byte(`{"a":"b","b":["a","x"]}`))
	}
	f.Fuzz(func(t *testing.T, one, other []byte) {
		var d decoder
		var shared words
		for range 2 {
			if o, taken := same(t, &d, &shared, one); taken {
				scribble(o)
			}
			same(t, &d, &shared, other)
		}
	})
}

// TestObjectsShareNothing expects that a change of a decoded object is in no other one, while several
// goroutines decode.
func TestObjectsShareNothing(t *testing.T) {
	text := onePod(t)
	s := New(UnstructuredType(), nil, func(key string, err error) { t.Errorf("%s: %v", key, err) })
	s.Put("a/b", "uid", "1", text, UnstructuredType(), 0)
	var want map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 50 {
				o, err := s.Entry("a/b").Object()
				if err != nil {
					t.Error(err)
					return
				}
				content := o.(*unstructured.Unstructured).Object //nolint:forcetypeassert // its own type
				if diff := cmp.Diff(want, content); diff != "" {
					t.Error(diff)
					return
				}
				scribble(content)
			}
		})
	}
	readers.Wait()
}

// scribble changes all that is in an object.
func scribble(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			scribble(value)
			v[key] = "changed"
		}
		v["added"] = true
	case []any:
		for i := range v {
			scribble(v[i])
			v[i] = "changed"
		}
	}
}

// TestDictionaries expects that each object returns as it was put, whatever dictionary the store has
// meanwhile, and that objects with similar ones before them become smaller.
func TestDictionaries(t *testing.T) {
	pod := onePod(t)
	var c compressor
	large := bytes.Repeat([]byte("large "), 50_000)
	texts := [][]byte{[]byte(`{}`), large}
	for n := range 2 * sampleDistance * mostSamples {
		texts = append(texts, bytes.ReplaceAll(pod[:2000+n%3000], []byte("f:"), []byte{byte('a' + n%20), ':'}))
	}
	var dictionaries []any
	for n, text := range texts {
		b := c.compress(text, UnstructuredType())
		if len(dictionaries) == 0 || dictionaries[len(dictionaries)-1] != b.dictionary {
			dictionaries = append(dictionaries, b.dictionary)
		}
		if got, err := b.json(); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("object %d: %v, %q", n, err, got)
		}
	}
	if len(c.scratch) > mostScratch {
		t.Errorf("%d bytes are kept for the next object", len(c.scratch))
	}
	if len(dictionaries) != 3 { // none, the first object, the samples
		t.Errorf("%d dictionaries", len(dictionaries))
	}
	if typed := c.compress(pod, MetadataType()); typed.into != MetadataType() || typed.dictionary != c.form.dictionary {
		t.Error("an object of another type has another dictionary")
	}
}
