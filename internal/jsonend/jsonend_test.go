package jsonend_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/informd/informd/internal/jsonend"
)

func TestValue(t *testing.T) {
	for name, tt := range map[string]struct {
		data string
		end  int
	}{
		"number":             {`12,`, 2},
		"number to the end":  {`-1.5e3`, 6},
		"literal":            {`null}`, 4},
		"string":             {`"a",`, 3},
		"empty string":       {`"":1`, 2},
		"escaped quote":      {`"a\"b"]`, 6},
		"escaped backslash":  {`"a\\"]`, 5},
		"eight and a quote":  {`"12345678",`, 10},
		"outside ASCII":      {`"aé\u00e9üüüü",1`, len(`"aé\u00e9üüüü"`)},
		"object":             {`{"a":{"b":[1,{}]}},2`, 18},
		"array":              {`[[],["]"],{"[":"\"]"}]]`, 22},
		"brackets in text":   {`{"}":"]"},`, 9},
		"nothing":            {``, jsonend.None},
		"no value":           {`,1`, jsonend.None},
		"no value in array":  {`]`, jsonend.None},
		"string, cut":        {`"a`, jsonend.None},
		"quote alone":        {`"`, jsonend.None},
		"cut in an escape":   {`"a\`, jsonend.None},
		"cut behind one":     {`"a\"`, jsonend.None},
		"eight, cut":         {`"1234567`, jsonend.None},
		"object, cut":        {`{"a":1`, jsonend.None},
		"object, cut string": {`{"a":"1}`, jsonend.None},
		"array, cut":         {`[1,[2]`, jsonend.None},
	} {
		t.Run(name, func(t *testing.T) {
			if got := jsonend.Value([]byte(tt.data), 0); got != tt.end {
				t.Errorf("%s: %d, want %d", tt.data, got, tt.end)
			}
		})
	}
}

// FuzzValue holds that nothing beyond the data is read, whatever it is, and that the ends
// in valid JSON are those that encoding/json finds.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":"a","labels":{}},"spec":{"n":[1,-2.5e7,true,null,[],[{}]]},"\u0061\"\\":"\\\"é\ud800"}`,
		`"1234567\"90123456\\"`, `[[[[["]"]]]]]`, `1`, `{"a":"`, `[1,{"b"`, `"\`, `}`, ``, "{\"a\xff\":\"\x00\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkBounds(t, data)
		var compact bytes.Buffer
		if json.Compact(&compact, data) == nil {
			checkEnds(t, compact.Bytes())
		}
	})
}

// checkBounds holds that every end is in the data, and the same whatever lies behind it.
func checkBounds(t *testing.T, data []byte) {
	t.Helper()
	alone := bytes.Clone(data)[:len(data):len(data)]
	for _, tail := range []string{strings.Repeat(`"`, 16), strings.Repeat(`\`, 16), strings.Repeat(`}]`, 8)} {
		followed := append(bytes.Clone(data), tail...)[:len(data)]
		for i := range data {
			end, other := jsonend.Value(alone, i), jsonend.Value(followed, i)
			if end != other {
				t.Fatalf("%q from %d: %d, and %d with %s behind it", data, i, end, other, tail)
			}
			if end != jsonend.None && (end <= i || end > len(data)) {
				t.Fatalf("%q from %d: %d", data, i, end)
			}
		}
	}
}

// checkEnds compares the end of every value and key with what encoding/json finds.
func checkEnds(t *testing.T, data []byte) {
	t.Helper()
	var open []int
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // one may be too large for a float64
	for {
		from := int(d.InputOffset())
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		end := int(d.InputOffset())
		for data[from] == ',' || data[from] == ':' {
			from++
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			open = append(open, from)
			continue
		case json.Delim('}'), json.Delim(']'):
			from, open = open[len(open)-1], open[:len(open)-1]
		}
		if got := jsonend.Value(data, from); got != end {
			t.Fatalf("%s from %d: %d, want %d", data, from, got, end)
		}
		if data[from] == '"' {
			escapes := bytes.IndexByte(data[from:end], '\\') >= 0
			if got, has := jsonend.Text(data, from); got != end || has != escapes {
				t.Fatalf("string in %s from %d: %d, %v, want %d, %v", data, from, got, has, end, escapes)
			}
		}
		if bytes.IndexByte([]byte(`"{[`), data[from]) >= 0 {
			checkCut(t, data, from, end)
		}
	}
}

// checkCut holds that a string, an object or an array that is cut off has no end.
func checkCut(t *testing.T, data []byte, from, end int) {
	t.Helper()
	for cut := end - 1; cut > from && cut >= end-16; cut-- {
		if got := jsonend.Value(data[:cut], from); got != jsonend.None {
			t.Fatalf("%s from %d, cut at %d: %d", data, from, cut, got)
		}
	}
}

func TestDecode(t *testing.T) {
	for value, want := range map[string]string{`"a"`: "a", `""`: "", `"\u0061\"\n"`: "a\"\n", `"\ud800"`: "\ufffd", `"é"`: "é"} {
		if got, ok := jsonend.Decode([]byte(value)); !ok || string(got) != want {
			t.Errorf("%s: %q, %v", value, got, ok)
		}
	}
	for _, value := range []string{"1", "{}", "null", "", `"`} {
		if _, ok := jsonend.Decode([]byte(value)); ok {
			t.Errorf("%s is no text", value)
		}
	}
}

// FuzzAppendString holds that encoding/json reads what was written, and finds the end of it.
func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "a\"\\/b", "\x00\n\t\x1f\x7f", "é\u2028😀", "a\xffb\xc3", "\xf0\x9f\x98"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := jsonend.AppendString([]byte("x"), text)[1:]
		want := string([]rune(text)) // U+FFFD for each byte that is not UTF-8
		var read string
		if err := json.Unmarshal(got, &read); err != nil || read != want || !bytes.Equal(got, jsonend.AppendString(nil, []byte(text))) {
			t.Errorf("%q: %s, read as %q (%v)", text, got, read, err)
		}
	})
}
