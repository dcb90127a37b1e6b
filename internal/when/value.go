package when

import (
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/informd/informd/internal/jsonend"
)

// maxDepth is how deep a value may be that is read: comparing two of them takes
// stack for every level, and reading a member a look over what is in it.
const maxDepth = 1_000

// lazyValue is the CEL value of text, which it keeps and which must not change. It decodes of it
// only what an expression reads: object.status.phase finds two keys and makes one string of
// an object of any size. The values are what CEL makes of the same text decoded
// into map[string]any as Kubernetes does it: whole numbers are int, others double.
//
// The text is an object of an event: valid JSON without white space outside of strings. Other
// text may panic where it is read, which CEL makes an error of. Values are not safe for
// concurrent use, as finding a member remembers it.
func lazyValue(text []byte) ref.Val { return decode(text, 0) }

func tooDeep() ref.Val { return types.NewErr("the data nests deeper than %d levels", maxDepth) }

// decode makes a value of its text.
func decode(text []byte, depth int) ref.Val {
	if depth > maxDepth {
		return tooDeep()
	}
	switch text[0] {
	case '{':
		return &object{text: text, next: 1, depth: depth}
	case '[':
		value, _ := list(text, 0, depth)
		return value
	case '"':
		s, _ := jsonend.Decode(text)
		return types.String(s)
	case 't':
		return types.True
	case 'f':
		return types.False
	case 'n':
		return types.NullValue
	}
	return number(text)
}

func number(text []byte) ref.Val {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return types.Int(n)
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return types.NewErr("number out of range") // each gets its own: CEL notes in it where it came up
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
	for i++; text[i] != ']'; {
		var item ref.Val
		if text[i] == '[' {
			item, end = list(text, i, depth+1)
		} else {
			end = jsonend.Value(text, i)
			item = decode(text[i:end], depth+1)
		}
		if types.IsError(item) {
			return item, len(text)
		}
		items = append(items, item)
		if i = end; text[i] == ',' {
			i++
		}
	}
	return types.NewRefValList(types.DefaultTypeAdapter, items), i + 1
}
