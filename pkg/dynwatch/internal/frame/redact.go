package frame

import (
	"bytes"
	"slices"

	"github.com/informd/informd/internal/jsonend"
	"github.com/informd/informd/pkg/fieldpath"
)

// hide appends the object to dst, its values replaced. With again, what is a hash
// already stays.
func (s *Shape) hide(dst, object []byte, o Object, again bool) []byte {
	r := fieldpath.Rewriter{Set: s.redact, Replace: func(dst []byte, m fieldpath.Match) ([]byte, bool) {
		kind, value := "json", m.Value
		if text, ok := jsonend.Decode(m.Value); ok {
			kind, value = "text", text
		}
		if again && kind == "text" && made(value) {
			return append(dst, m.Value...), true
		}
		dst = s.redactor.hash(append(dst, '"'), o, kind, string(m.Location), "", value)
		return append(dst, '"'), true
	}}
	if len(s.patterns) > 0 {
		left := newBudget()
		r.Text = func(dst []byte, m fieldpath.Match) ([]byte, bool) { return s.hideInside(left, dst, m, o, again) }
	}
	return r.Append(dst, object)
}

// hideInside replaces what the patterns find in a string.
func (s *Shape) hideInside(left *budget, dst []byte, m fieldpath.Match, o Object, again bool) ([]byte, bool) {
	text, _ := jsonend.Decode(m.Value)
	found := s.find(left, text, again)
	if len(found) == 0 || slices.ContainsFunc(s.identity, func(at []byte) bool { return bytes.Equal(at, m.Location) }) {
		return dst, false
	}
	var next []byte
	from := 0
	for _, f := range found {
		next = append(next, text[from:f.from]...)
		next = s.redactor.hash(next, o, "match", string(m.Location), "", text[f.from:f.to])
		from = f.to
	}
	return jsonend.AppendString(dst, append(next, text[from:]...)), true
}
