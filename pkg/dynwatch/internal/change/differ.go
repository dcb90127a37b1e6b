package change

import (
	"bytes"
	"errors"
)

// thorough is how many times as much as there is is scanned at the most: a value once at
// every level that it is in, as far as there are changes. No object that makes sense comes
// close.
const thorough = 32

// few is up to how many keys are held one against the other, which takes no memory.
const few = 32

var errNoObject = errors.New("not a JSON object without white space")

// side is one of the two objects, and the children of what is compared just now.
type side struct {
	data     []byte
	children []child // those of outer values are before those of inner ones
}

// span is where a value is.
type span struct{ from, end int }

func (c child) at() span { return span{c.value, c.end} }

// differ goes through two objects and notes what differs.
type differ struct {
	before, after side
	set           *Set
	left          int // how much may still be scanned
}

// value compares the two values at a place.
func (d *differ) value(b, a span, at int) error {
	before, after := d.before.data[b.from:b.end], d.after.data[a.from:a.end]
	if bytes.Equal(before, after) {
		return nil
	}
	if before[0] == after[0] {
		switch before[0] {
		case '{', '[':
			if d.left -= len(before) + len(after); d.left >= 0 {
				return d.container(b, a, at)
			}
		case '"':
			if sameText(before, after) {
				return nil
			}
		}
	}
	d.set.note(replace, at, after)
	return nil
}

// container compares two objects or two arrays.
func (d *differ) container(b, a span, at int) error {
	bottomBefore, bottomAfter := len(d.before.children), len(d.after.children)
	if !d.scan(b, a) {
		return errNoObject
	}
	var err error
	if array := d.before.data[b.from] == '['; array {
		err = d.elements(bottomBefore, bottomAfter, at)
	} else {
		d.before.dropRepeated(bottomBefore)
		d.after.dropRepeated(bottomAfter)
		err = d.members(bottomBefore, bottomAfter, at)
	}
	d.before.children, d.after.children = d.before.children[:bottomBefore], d.after.children[:bottomAfter]
	return err
}

// scan adds the children of two values of one type. Those of after are scanned; where
// before has the same bytes, that is enough for both.
func (d *differ) scan(b, a span) bool {
	array := d.before.data[b.from] == '['
	i, okBefore := d.before.open(b)
	k, okAfter := d.after.open(a)
	for okBefore && okAfter && i != b.end && k != a.end {
		c, ok := next(d.after.data, k, array)
		if !ok {
			return false
		}
		text := d.after.data[c.from : c.end+1]
		// With the byte behind it, for a number may go on.
		if end := i + len(text); end <= b.end && bytes.Equal(d.before.data[i:end], text) {
			by := i - k
			d.before.children = append(d.before.children, child{c.from + by, c.value + by, c.end + by, c.escapes})
			i, okBefore = d.before.behind(c.end+by, b)
		} else {
			i, okBefore = d.before.add(i, b, array)
		}
		d.after.children = append(d.after.children, c)
		k, okAfter = d.after.behind(c.end, a)
	}
	for okBefore && i != b.end {
		i, okBefore = d.before.add(i, b, array)
	}
	for okAfter && k != a.end {
		k, okAfter = d.after.add(k, a, array)
	}
	return okBefore && okAfter
}

// open returns where the first child in a value begins, or the value's end.
func (s *side) open(in span) (int, bool) {
	i := in.from + 1
	if i < in.end && s.data[i] == closing(s.data[in.from]) {
		return i + 1, i+1 == in.end
	}
	return i, i < in.end
}

// behind returns where the child begins that follows on what ends at i, or the value's
// end.
func (s *side) behind(i int, in span) (int, bool) {
	switch {
	case i >= in.end:
		return i, false
	case s.data[i] == ',':
		return i + 1, i+1 < in.end
	default:
		return i + 1, i+1 == in.end && s.data[i] == closing(s.data[in.from])
	}
}

// closing is what ends what opens.
func closing(open byte) byte { return open + 2 } // { and }, [ and ]

// add scans the child that begins at i and returns what behind does.
func (s *side) add(i int, in span, array bool) (int, bool) {
	c, ok := next(s.data, i, array)
	if !ok {
		return i, false
	}
	s.children = append(s.children, c)
	return s.behind(c.end, in)
}

// dropRepeated leaves of the members from bottom on the last one of each key.
func (s *side) dropRepeated(bottom int) {
	all := s.children[bottom:]
	if !s.repeats(all) {
		return
	}
	seen := make(map[string]bool, len(all))
	to := len(all)
	for i := len(all) - 1; i >= 0; i-- {
		if name := string(all[i].key(s.data)); !seen[name] {
			seen[name] = true
			to--
			all[to] = all[i]
		}
	}
	s.children = s.children[:bottom+copy(all, all[to:])]
}

// repeats reports whether two members have the same key.
func (s *side) repeats(all []child) bool {
	if len(all) <= few {
		for i, c := range all {
			for _, other := range all[:i] {
				if isKey(s.data, c, s.data, other) {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[string]struct{}, len(all))
	for _, c := range all {
		seen[string(c.key(s.data))] = struct{}{}
	}
	return len(seen) < len(all)
}

// middle returns what is left of the children from the bottoms on without those that both
// begin and end with.
func (d *differ) middle(bottomBefore, bottomAfter int) (before, after span) {
	b, a := span{bottomBefore, len(d.before.children)}, span{bottomAfter, len(d.after.children)}
	for b.from < b.end && a.from < a.end && d.isSame(b.from, a.from) {
		b.from++
		a.from++
	}
	for b.from < b.end && a.from < a.end && d.isSame(b.end-1, a.end-1) {
		b.end--
		a.end--
	}
	return b, a
}

func (d *differ) isSame(b, a int) bool {
	x, y := d.before.children[b], d.after.children[a]
	return bytes.Equal(d.before.data[x.from:x.end], d.after.data[y.from:y.end])
}

// elements compares two arrays.
func (d *differ) elements(bottomBefore, bottomAfter, at int) error {
	b, a := d.middle(bottomBefore, bottomAfter)
	for ; b.from < b.end && a.from < a.end; b.from, a.from = b.from+1, a.from+1 {
		place := d.set.element(at, b.from-bottomBefore)
		if err := d.value(d.before.children[b.from].at(), d.after.children[a.from].at(), place); err != nil {
			return err
		}
	}
	for last := b.end - 1; last >= b.from; last-- { // from the end, so that the others stay in their places
		d.set.note(remove, d.set.element(at, last-bottomBefore), nil)
	}
	for ; a.from < a.end; a.from++ {
		c := d.after.children[a.from]
		d.set.note(add, d.set.element(at, a.from-bottomAfter), d.after.data[c.value:c.end])
	}
	return nil
}

// members compares two objects.
func (d *differ) members(bottomBefore, bottomAfter, at int) error {
	b, a := d.middle(bottomBefore, bottomAfter)
	for ; b.from < b.end && a.from < a.end; b.from, a.from = b.from+1, a.from+1 {
		x, y := d.before.children[b.from], d.after.children[a.from]
		if !isKey(d.before.data, x, d.after.data, y) {
			break
		}
		if err := d.value(x.at(), y.at(), d.set.member(at, y.key(d.after.data))); err != nil {
			return err
		}
	}
	var rest map[string]int // of before
	if b.from < b.end && a.from < a.end {
		rest = make(map[string]int, b.end-b.from)
		for i := b.from; i < b.end; i++ {
			rest[string(d.before.children[i].key(d.before.data))] = i
		}
	}
	for ; a.from < a.end; a.from++ {
		y := d.after.children[a.from]
		name := y.key(d.after.data)
		place := d.set.member(at, name)
		i, ok := rest[string(name)]
		if !ok {
			d.set.note(add, place, d.after.data[y.value:y.end])
			continue
		}
		delete(rest, string(name))
		if err := d.value(d.before.children[i].at(), y.at(), place); err != nil {
			return err
		}
	}
	for ; b.from < b.end; b.from++ {
		name := d.before.children[b.from].key(d.before.data)
		if _, stays := rest[string(name)]; rest == nil || stays {
			d.set.note(remove, d.set.member(at, name), nil)
		}
	}
	return nil
}
