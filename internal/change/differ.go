package change

import (
	"bytes"
	"errors"
)

// thorough is how many times as much as there is is scanned at the most, if that is more
// than usualScan: a value once at every level that it is in, as far as there are changes.
// No object that makes sense comes close.
const (
	thorough  = 16
	usualScan = 1 << 20
)

// wordy is how many times as long as the object a patch may become, if it is longer than
// usualPatch.
const (
	wordy      = 2
	usualPatch = 64 << 10
)

var (
	errNoObject = errors.New("not a JSON object without white space")
	errTooLong  = errors.New("the patch would be too long")
)

// span is where a value is.
type span struct{ from, end int }

func (c child) at() span { return span{c.value, c.end} }

// differ goes through two objects and notes what differs.
type differ struct {
	before, after side
	set           *Set
	left          int // how much may still be scanned
	room          int // how much longer the patch may become
}

func newDiffer(before, after []byte) *differ {
	return &differ{
		before: side{data: before}, after: side{data: after},
		left: max(usualScan, thorough*(len(before)+len(after))), room: max(usualPatch, wordy*len(after)),
	}
}

// run compares the objects.
func (d *differ) run() (*Set, error) {
	d.set = &Set{}
	d.before.children, d.after.children = nil, nil
	if err := d.value(span{0, len(d.before.data)}, span{0, len(d.after.data)}, none); err != nil {
		return nil, err
	}
	return d.set, nil
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
			if size := len(before) + len(after); size <= d.left {
				d.left -= size
				return d.container(b, a, at)
			}
		case '"':
			if sameText(before, after) {
				return nil
			}
		}
	}
	return d.note(replace, at, after)
}

// note adds a change to the set.
func (d *differ) note(o op, at int, value []byte) error {
	if d.room -= d.set.note(o, at, value); d.room < 0 {
		return errTooLong
	}
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
			d.before.children = append(d.before.children, child{from: c.from + by, value: c.value + by, end: c.end + by, escapes: c.escapes})
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
		if err := d.note(remove, d.set.element(at, last-bottomBefore), nil); err != nil {
			return err
		}
	}
	for ; a.from < a.end; a.from++ {
		c := d.after.children[a.from]
		if err := d.note(add, d.set.element(at, a.from-bottomAfter), d.after.data[c.value:c.end]); err != nil {
			return err
		}
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
	return d.byKey(b, a, at)
}

// byKey compares the members that do not stand in one order, or came or went.
func (d *differ) byKey(b, a span, at int) error {
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
		var err error
		if i, ok := rest[string(name)]; ok {
			d.before.children[i].met = true
			err = d.value(d.before.children[i].at(), y.at(), place)
		} else {
			err = d.note(add, place, d.after.data[y.value:y.end])
		}
		if err != nil {
			return err
		}
	}
	for _, x := range d.before.children[b.from:b.end] {
		if x.met {
			continue
		}
		if err := d.note(remove, d.set.member(at, x.key(d.before.data)), nil); err != nil {
			return err
		}
	}
	return nil
}
