package frame

import (
	"errors"
	"io"
)

// ReadList is [ReadList] for a list of the normaliser's resource: take is given every
// item as an object, which is valid during the call only, but for what it consists of,
// or, if it is malformed, the report about it. An item that has arrived as a whole is
// gone over once, not once for its end and once for the rest. The objects are written
// into m, which may be reset at the end of take, or, if it is nil, into memory that
// nobody resets.
func (n *Normaliser) ReadList(r io.Reader, maxItem int, m *Memory, take func(o *Object, bad *Malformed) error) (ListMeta, error) {
	if m == nil {
		m = new(Memory)
	}
	var o Object // not one for each item
	l := listReader{window: window{r: r, max: maxItem}}
	l.item = func(raw []byte) (err error) {
		o, err = n.NormaliseInto(m, raw)
		if bad, ok := errors.AsType[*Malformed](err); ok {
			return take(nil, bad)
		}
		return take(&o, nil)
	}
	l.ahead = func(data []byte) (size int, err error) {
		if o, size = n.normaliseFirst(data, m); size == 0 {
			return 0, nil
		}
		return size, take(&o, nil)
	}
	err := l.list()
	return l.meta, err
}

// normaliseFirst normalises the object that data begins with, and returns its size. It
// is 0 if not all of the object is there, or if [Normaliser.Normalise] has something to
// report of it.
func (n *Normaliser) normaliseFirst(data []byte, m *Memory) (o Object, size int) {
	p := n.begin(data)
	defer n.end(p)
	defer func() {
		if recover() != nil { // as it will when Normalise comes to it, which says so
			o, size = Object{}, 0
		}
	}()
	end := p.run(0)
	if end == none {
		return Object{}, 0
	}
	o, bad := n.finish(p, data[:end], 0, end, m)
	if bad != nil {
		return Object{}, 0
	}
	return o, end
}
