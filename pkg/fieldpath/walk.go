package fieldpath

import (
	"encoding/binary"

	"github.com/informd/informd/internal/jsonend"
)

// Match is a value at a path. Location is valid during the call only.
type Match struct {
	// Path is the index of the path in its set.
	Path int
	// Location distinguishes values at different places of an object, except elements of one
	// array. It is not for people; [Location] returns the same bytes.
	Location []byte
	// Value is a part of the object, strings with their quotes.
	Value []byte
}

// Walk calls visit for every value at a path, in the order of the object, and for an outer
// value before those inside. If several paths match a value, it calls visit once for each.
func (s *Set) Walk(object []byte, visit func(Match)) {
	w := newWalker(object)
	w.found = func(at window, from, end int) bool {
		for _, n := range w.stack[at.from:at.to] {
			for _, path := range n.ends {
				visit(Match{Path: path, Location: w.location, Value: object[from:end]})
			}
		}
		return true
	}
	w.container(0, w.stack.push(&s.root))
}

// Rewriter replaces values of an object.
type Rewriter struct {
	// Set leads to the values that Replace appends something else for, valid JSON, to
	// dst; an outer value is replaced with all that is in it. If Replace returns false, the
	// value stays, and the walk goes on in it. Path is the first of those that lead there.
	// Both may be nil.
	Set     *Set
	Replace func(dst []byte, m Match) ([]byte, bool)
	// Text, if not nil, is called for every other string that is a value or an element,
	// not for keys. It appends another value, or returns false, and the string stays.
	// Match.Path is -1.
	Text func(dst []byte, m Match) ([]byte, bool)
}

// Append appends the object to dst, with its values replaced. It keeps nothing of the
// object.
func (r *Rewriter) Append(dst, object []byte) []byte {
	w := newWalker(object)
	from := 0 // what is before it is in dst
	replace := func(by func([]byte, Match) ([]byte, bool), m Match, begin, end int) bool {
		dst = append(dst, object[from:begin]...)
		from = begin
		next, ok := by(dst, m)
		if ok {
			dst, from = next, end
		}
		return ok
	}
	w.found = func(at window, begin, end int) bool {
		for _, n := range w.stack[at.from:at.to] {
			if len(n.ends) > 0 {
				return !replace(r.Replace, Match{Path: n.ends[0], Location: w.location, Value: object[begin:end]}, begin, end)
			}
		}
		return false
	}
	if r.Text != nil {
		w.text = func(begin, end int) {
			replace(r.Text, Match{Path: -1, Location: w.location, Value: object[begin:end]}, begin, end)
		}
	}
	at := window{}
	if r.Set != nil {
		at = w.stack.push(&r.Set.root)
	}
	w.container(0, at)
	return append(dst, object[from:]...)
}

// What a walk has room for before it takes more.
const (
	usualDepth    = 16
	usualLocation = 128
)

// walker goes once through an object.
type walker struct {
	data     []byte
	stack    nodes
	location []byte
	// found is called where a path ends, and returns whether to look into the value.
	found func(at window, from, end int) bool
	// text, if not nil, is called for every other string.
	text func(from, end int)
}

func newWalker(object []byte) walker {
	return walker{data: object, stack: make(nodes, 0, usualDepth), location: make([]byte, 0, usualLocation)}
}

// container goes through the object or array that begins at i and returns the index
// behind it.
func (w *walker) container(i int, at window) int {
	array := w.data[i] == '['
	i++
	if w.data[i] == '}' || w.data[i] == ']' {
		return i + 1
	}
	for ; ; i++ {
		place, bottom := len(w.location), len(w.stack)
		var name []byte
		if array {
			w.location = appendElement(w.location)
		} else {
			name, i = jsonend.Key(w.data, i)
			w.location = appendKey(w.location, name)
		}
		i = w.value(i, w.stack.into(at, array, name))
		w.location, w.stack = w.location[:place], w.stack[:bottom]
		if w.data[i] != ',' {
			return i + 1
		}
	}
}

// value goes through the value that begins at i and returns the index behind it.
func (w *walker) value(i int, at window) int {
	end := 0
	if w.stack.end(at) {
		if end = jsonend.Value(w.data, i); !w.found(at, i, end) {
			return end
		}
	}
	first := w.data[i]
	if w.stack.enter(at, first) || w.text != nil && (first == '{' || first == '[') {
		return w.container(i, at)
	}
	if end == 0 {
		end = jsonend.Value(w.data, i)
	}
	if w.text != nil && first == '"' {
		w.text(i, end)
	}
	return end
}

// Location is the [Match.Location] of the value that keys lead to, from the outermost
// object on.
func Location(keys ...string) []byte {
	var location []byte
	for _, k := range keys {
		location = appendKey(location, []byte(k))
	}
	return location
}

// appendKey appends a key with its length before it, and never 0 for that.
func appendKey(location, name []byte) []byte {
	return append(binary.AppendUvarint(location, uint64(len(name))+1), name...)
}

func appendElement(location []byte) []byte { return append(location, 0) }
