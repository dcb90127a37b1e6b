package when

import (
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// maxDepth is how deep a value may be that is read: comparing two of them takes
// stack for every level, and reading a member a look over what is in it.
const maxDepth = 1_000

// lazyValue is the CEL value of text, which it keeps and which must not change. It decodes of it
// only what an expression reads: object.status.phase finds two keys and makes one string of
// an object of any size. The values are what CEL makes of the same text decoded
// into map[string]any as Kubernetes does it: whole numbers are int, others double.
//
// The text may be hostile: what is not JSON is a CEL error where it is read. Values are not
// safe for concurrent use, as finding a member remembers it.
func lazyValue(text []byte) ref.Val {
	start := skipSpace(text, 0)
	if start < len(text) && text[start] == '{' {
		return decode(text[start:], 0) // ends where it ends: to look for it would be a pass over all of it
	}
	end, ok := endOf(text, start)
	if !ok || skipSpace(text, end) != len(text) {
		return broken()
	}
	return decode(text[start:end], 0)
}

// broken is the value of what is not JSON. CEL notes in an error where it came up,
// so that each gets its own.
func broken() ref.Val { return types.NewErr("the data is not JSON") }

func tooDeep() ref.Val { return types.NewErr("the data nests deeper than %d levels", maxDepth) }

// decode makes a value of a text that endOf has found.
func decode(text []byte, depth int) ref.Val {
	if depth > maxDepth {
		return tooDeep()
	}
	switch c := text[0]; {
	case c == '{':
		return &object{text: text, next: 1, depth: depth}
	case c == '[':
		value, _ := list(text, 0, depth)
		return value
	case c == '"':
		s, ok := unquote(text)
		if !ok {
			return broken()
		}
		return types.String(s)
	case c == '-', '0' <= c && c <= '9':
		return number(text)
	}
	switch string(text) {
	case "true":
		return types.True
	case "false":
		return types.False
	case "null":
		return types.NullValue
	}
	return broken()
}

func number(text []byte) ref.Val {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return types.Int(n)
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsInf(f, 0) || !json.Valid(text) { // ParseFloat takes more than JSON has
		return broken()
	}
	return types.Double(f)
}

// list makes a value of the list that begins at i, and returns the index behind it.
// Its items are found at once, as even its size needs that: lists in it as well, in
// one pass over all of them, and objects without a look inside.
func list(text []byte, i, depth int) (value ref.Val, end int) {
	if depth > maxDepth {
		return tooDeep(), len(text)
	}
	items := []ref.Val{}
	i = skipSpace(text, i+1)
	if i < len(text) && text[i] == ']' {
		return types.NewRefValList(types.DefaultTypeAdapter, items), i + 1
	}
	for i < len(text) {
		var item ref.Val
		if text[i] == '[' {
			item, end = list(text, i, depth+1)
		} else {
			var ok bool
			if end, ok = endOf(text, i); !ok {
				break
			}
			item = decode(text[i:end], depth+1)
		}
		if types.IsError(item) {
			return item, len(text)
		}
		items = append(items, item)
		i = skipSpace(text, end)
		if i < len(text) && text[i] == ']' {
			return types.NewRefValList(types.DefaultTypeAdapter, items), i + 1
		}
		if i >= len(text) || text[i] != ',' {
			break
		}
		i = skipSpace(text, i+1)
	}
	return broken(), len(text)
}

// unquote decodes a JSON string.
func unquote(text []byte) (string, bool) {
	inner := text[1 : len(text)-1]
	if plain(inner) {
		return string(inner), true
	}
	var s string
	err := json.Unmarshal(text, &s)
	return s, err == nil
}

// plain reports whether what is between quotes stands for itself.
func plain(inner []byte) bool {
	ascii := true
	for _, c := range inner {
		if c == '\\' || c < ' ' {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.Valid(inner)
}
