package frame

import (
	"errors"
	"io"
)

// ReadList is [ReadList] for a list of the normaliser's resource: it passes each
// item to take as an object, or as a report if the item is malformed. The object is valid
// during the call only; its contents stay valid. An item that has arrived as a whole is
// scanned once. The objects are written into m, which take may reset before it returns. If
// m is nil, they are written into memory that is not reused.
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
