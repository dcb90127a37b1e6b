package frame_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// accepted holds the scanner to encoding/json: an object with that spec is valid for both
// or for none.
func accepted(t *testing.T, n *frame.Normaliser, spec string) {
	t.Helper()
	raw := []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"spec":` + spec + "}")
	valid := json.Valid(raw) && utf8.Valid(raw)
	if _, err := n.Normalise(raw); (err == nil) != valid {
		t.Errorf("%q: %v, but valid is %t", spec, err, valid)
	}
}

// TestEveryByteAtEveryPlace: strings are looked at in words, which must not make a
// difference to any byte, whatever is beside it.
func TestEveryByteAtEveryPlace(t *testing.T) {
	n := frame.NewNormaliser("v1", "Pod", frame.Options{})
	for c := range 256 {
		for at := range 18 {
			for _, beside := range []string{"a", " ", "!", "\x7f"} {
				text := []byte(strings.Repeat(beside, 18))
				text[at] = byte(c)
				accepted(t, n, `"`+string(text)+`"`)
				accepted(t, n, `{"`+string(text)+`":"`+string(text)+`"}`)
			}
		}
	}
}

// TestNesting closes every level in the right way and in the wrong one.
func TestNesting(t *testing.T) {
	n := frame.NewNormaliser("v1", "Pod", frame.Options{})
	for _, depth := range []int{1, 2, 62, 63, 64, 65, 66, 127, 128, 129, 300} {
		for _, kinds := range []string{"[", "{", "[{", "[[{", "{{["} {
			var open strings.Builder
			shut := make([]byte, depth)
			for level := range depth {
				shut[depth-1-level] = ']'
				if kinds[level%len(kinds)] == '{' {
					shut[depth-1-level] = '}'
					open.WriteString(`{"k":`)
				} else {
					open.WriteString(`[0,`)
				}
			}
			spec := open.String() + "null"
			accepted(t, n, spec+string(shut))
			accepted(t, n, spec+string(shut[1:]))
			accepted(t, n, spec+string(shut)+"]")
			for i, right := range shut {
				shut[i] = right ^ ']' ^ '}'
				accepted(t, n, spec+string(shut))
				shut[i] = right
				accepted(t, n, spec+string(shut[:i])+",1"+string(shut[i:]))
				accepted(t, n, spec+string(shut[:i])+`,"k":1`+string(shut[i:]))
				accepted(t, n, spec+string(shut[:i])+" , [ ] "+string(shut[i:]))
			}
		}
	}
}
