package fieldpath

import "github.com/informd/informd/internal/jsonend"

// Projection drops values of an object.
type Projection struct{ keep, omit *Set }

// NewProjection returns a projection that keeps the values at the paths of keep, with the
// objects and arrays around them, and then drops those at the paths of omit. A nil keep
// keeps all values, a nil omit drops none.
//
// Objects and arrays without remaining members stay as {} or []. An array element of another
// type than a path of keep needs is dropped.
func NewProjection(keep, omit *Set) *Projection { return &Projection{keep: keep, omit: omit} }

// Append appends the projected object to dst. It keeps no reference to the object.
func (p *Projection) Append(dst, object []byte) []byte {
	var room [16]*node
	c := cutter{data: object, dst: dst, stack: room[:0]}
	keep, omit := window{}, window{}
	if p.keep != nil {
		keep = c.stack.push(&p.keep.root)
	}
	if p.omit != nil {
		omit = c.stack.push(&p.omit.root)
	}
	c.container(0, keep, omit, p.keep == nil)
	return append(c.dst, c.data[c.from:]...)
}

// cutter goes once through an object.
type cutter struct {
	data, dst []byte
	from      int // what is before it is in dst, or cut
	stack     nodes
}

// container goes through the object or array that begins at i and returns the index
// behind it. Whole says that what omit does not lead to stays.
func (c *cutter) container(i int, keep, omit window, whole bool) int {
	array := c.data[i] == '['
	i++
	if c.data[i] == '}' || c.data[i] == ']' {
		return i + 1
	}
	for kept := 0; ; i++ {
		begin := i
		var name []byte
		if !array {
			name, i = jsonend.Key(c.data, i)
		}
		bottom := len(c.stack)
		var stays bool
		if i, stays = c.value(i, c.stack.into(keep, array, name), c.stack.into(omit, array, name), whole); stays {
			kept++
		} else {
			c.cut(begin, i, kept)
		}
		c.stack = c.stack[:bottom]
		if c.data[i] != ',' {
			return i + 1
		}
	}
}

// value goes through the value that begins at i, and returns the index behind it and
// whether it stays.
func (c *cutter) value(i int, keep, omit window, whole bool) (end int, stays bool) {
	whole = whole || c.stack.end(keep)
	first := c.data[i]
	switch {
	case c.stack.end(omit), !whole && !c.stack.enter(keep, first):
		return jsonend.Value(c.data, i), false
	case !whole, c.stack.enter(omit, first):
		return c.container(i, keep, omit, whole), true
	default:
		return jsonend.Value(c.data, i), true
	}
}

// cut leaves out data[begin:end], a member or an element, with the comma before it or,
// if nothing was kept before it, the one behind it.
func (c *cutter) cut(begin, end, kept int) {
	if kept > 0 {
		begin--
	}
	c.dst = append(c.dst, c.data[c.from:begin]...)
	c.from = end
	if kept == 0 && c.data[end] == ',' {
		c.from++
	}
}
