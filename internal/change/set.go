package change

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/informd/informd/internal/jsonend"
	"github.com/informd/informd/pkg/fieldpath"
)

// Set is what is different between two objects. It does not change.
type Set struct {
	places  []place
	changes []difference
}

// place is a value in an object, known by its index in a set.
type place struct {
	outer  int // the place that this one is in; none for the object itself
	key    []byte
	index  int // of an element, or none
	length int // of what leads here, about
}

// difference is one operation of a patch.
type difference struct {
	op    op
	place int
	value []byte
}

// op is the name of an operation.
type op string

const (
	add     op = "add"
	remove  op = "remove"
	replace op = "replace"
)

// Of compares two states of an object, both normalised. The set keeps both, which must
// not change as long as it is used. There is an error only if one of them is something
// else; not all of it is checked.
func Of(before, after []byte) (*Set, error) {
	if len(before) == 0 || before[0] != '{' || len(after) == 0 || after[0] != '{' {
		return nil, errNoObject
	}
	d := newDiffer(before, after)
	set, err := d.run()
	if errors.Is(err, errTooLong) { // so the members of the object itself have to do
		d.left, d.room = len(before)+len(after), math.MaxInt
		set, err = d.run()
	}
	return set, err
}

// note adds a change and returns about how long it makes the patch.
func (s *Set) note(o op, at int, value []byte) int {
	s.changes = append(s.changes, difference{o, at, value})
	size := len(`{"op":"replace","path":"","value":},`) + len(value)
	if at != none {
		size += s.places[at].length
	}
	return size
}

// member returns the place of a member of what is at a place.
func (s *Set) member(at int, key []byte) int { return s.place(place{at, key, none, len(key)}) }

// element returns the place of an element of what is at a place.
func (s *Set) element(at, index int) int { return s.place(place{at, nil, index, len("[]")}) }

func (s *Set) place(p place) int {
	p.length += len("/")
	if p.outer != none {
		p.length += s.places[p.outer].length
	}
	s.places = append(s.places, p)
	return len(s.places) - 1
}

// AppendPaths appends a JSON array of the paths to what changed, as package fieldpath
// reads them, sorted, each of them once. A path leads to the innermost value that changed,
// or to the outermost one that came or went. An element is "[]" whichever it is:
// spec.containers[].image, as one writes it in a config.
//
// metadata.resourceVersion, which is another one in every state, is left out, and so is
// metadata.managedFields.
func (s *Set) AppendPaths(dst []byte) []byte {
	texts := make([][]byte, 0, len(s.changes))
	for _, c := range s.changes {
		if text := s.appendPath(nil, c.place); !isSilent(text) {
			texts = append(texts, text)
		}
	}
	slices.SortFunc(texts, bytes.Compare)
	dst = append(dst, '[')
	for i, text := range slices.CompactFunc(texts, bytes.Equal) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonend.AppendString(dst, text)
	}
	return append(dst, ']')
}

// isSilent reports whether a change of what a path leads to says nothing.
func isSilent(path []byte) bool {
	rest, ok := bytes.CutPrefix(path, []byte("metadata.managedFields"))
	return ok && (len(rest) == 0 || rest[0] == '.' || rest[0] == '[') || string(path) == "metadata.resourceVersion"
}

func (s *Set) appendPath(dst []byte, at int) []byte {
	if at == none {
		return dst
	}
	p := s.places[at]
	dst = s.appendPath(dst, p.outer)
	if p.index != none {
		return fieldpath.AppendElement(dst)
	}
	return fieldpath.AppendKey(dst, string(p.key))
}

// AppendPatch appends a JSON Patch (RFC 6902) that makes after of before, with the
// operations add, remove and replace. It covers every change.
func (s *Set) AppendPatch(dst []byte) []byte {
	dst = append(dst, '[')
	for i, c := range s.changes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"op":"`...), c.op...), `","path":"`...)
		dst = append(s.appendPointer(dst, c.place), '"')
		if c.op != remove {
			dst = append(append(dst, `,"value":`...), c.value...)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// appendPointer appends a JSON Pointer (RFC 6901) as it stands in a JSON string.
func (s *Set) appendPointer(dst []byte, at int) []byte {
	if at == none {
		return dst
	}
	p := s.places[at]
	dst = append(s.appendPointer(dst, p.outer), '/')
	if p.index != none {
		return strconv.AppendInt(dst, int64(p.index), 10)
	}
	for rest := p.key; ; {
		i := bytes.IndexAny(rest, "~/")
		if i < 0 {
			return jsonend.AppendInside(dst, rest)
		}
		dst = jsonend.AppendInside(dst, rest[:i])
		if rest[i] == '~' {
			dst = append(dst, "~0"...)
		} else {
			dst = append(dst, "~1"...)
		}
		rest = rest[i+1:]
	}
}
