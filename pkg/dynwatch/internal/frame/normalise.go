package frame

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/internal/jsonend"
)

// Options say how objects are normalised. Its functions must be safe for concurrent use.
type Options struct {
	// Exact says that nothing of an object is dropped: managedFields and the last-applied
	// annotation stay. An object of another kind
	// than that of the resource is malformed.
	Exact bool
	// Wants reports whether objects of a namespace are rendered, nil for all. The Data of
	// others is nil. They are checked and identified all the same.
	Wants func(namespace string) bool
	// Shape returns the shape that objects are brought into at the time. If it is nil, they
	// are whole.
	Shape func() *Shape
}

// Normaliser normalises the objects of one resource. It is safe for concurrent
// use.
type Normaliser struct {
	Options
	apiVersion, kind string
	// prefix is how every object begins: with apiVersion and kind and a comma.
	prefix []byte
	passes sync.Pool // of *pass
}

// NewNormaliser returns the normaliser of a resource whose objects are of that
// version ("v1", "apps/v1") and kind.
func NewNormaliser(apiVersion, kind string, o Options) *Normaliser {
	// Two strings always marshal.
	version, _ := json.Marshal(apiVersion) //nolint:errchkjson // see above
	kindText, _ := json.Marshal(kind)      //nolint:errchkjson // see above
	prefix := []byte(`{"apiVersion":`)
	prefix = append(append(prefix, version...), `,"kind":`...)
	prefix = append(prefix, kindText...)
	return &Normaliser{apiVersion: apiVersion, kind: kind, prefix: append(prefix, ','), Options: o}
}

// Normalise is NormaliseInto memory of the object's own.
func (n *Normaliser) Normalise(raw []byte) (Object, error) { return n.NormaliseInto(nil, raw) }

// NormaliseInto checks and normalises one object, which may have white space around
// it, and writes it into m. It keeps nothing of raw. The error is always a [*Malformed].
func (n *Normaliser) NormaliseInto(m *Memory, raw []byte) (o Object, err error) {
	p := n.begin(raw)
	defer n.end(p)
	defer func() {
		if fault := recover(); fault != nil {
			o, err = Object{}, crashed(fault, len(raw))
		}
	}()
	from := p.Skip(0)
	end := p.run(from)
	if end != jsonend.None {
		if behind := p.Skip(end); behind < len(raw) {
			end = p.Fail(behind, "bytes follow the object")
		}
	}
	o, bad := n.finish(p, raw, from, end, m)
	if bad != nil {
		return Object{}, bad
	}
	return o, nil
}

// crashed is the report of a fault in this package: one object that it cannot
// cope with must not take the process, and with it every other target, along.
func crashed(fault any, size int) *Malformed {
	return &Malformed{Reason: fmt.Sprintf("internal error, please report it: %v", fault), Size: size}
}

// begin begins a pass over data. Its scratch is used again after end.
func (n *Normaliser) begin(data []byte) *pass {
	p, ok := n.passes.Get().(*pass)
	if !ok {
		p = new(pass)
	}
	p.Data, p.exact = data, n.Exact
	if n.Shape != nil {
		p.shape = n.Shape()
	}
	return p
}

// end gives the pass back. What it read of data is dropped, and so is room that one
// object made large: that for edits, if it was pretty-printed.
func (n *Normaliser) end(p *pass) {
	const usual = 1024
	edits := p.Edits[:0]
	if cap(edits) > usual {
		edits = nil
	}
	*p = pass{Scanner: jsonend.Scanner{Edits: edits}, buffers: p.buffers.kept()}
	n.passes.Put(p)
}

// finish makes the object of the pass, which has found it at data[from:end]; raw
// is what a report about it shows. It is written into m, or, if that is nil, has memory
// of its own.
func (n *Normaliser) finish(p *pass, raw []byte, from, end int, m *Memory) (Object, *Malformed) {
	if end == jsonend.None {
		return Object{}, p.malformed(raw, p.syntax(from))
	}
	p.complete()
	if n.Exact && n.foreign(p) {
		p.refuse("the object has another kind or apiVersion than its resource")
	}
	if p.reason != "" {
		return Object{}, p.malformed(raw, p.reason)
	}
	o := p.object(m)
	if n.Wants == nil || n.Wants(o.Namespace) {
		n.data(p, &o, from, end, m)
	}
	return o, nil
}

// foreign reports whether an object has another kind than the objects of the resource. Items of
// typed lists have none, and that of metadata is not the kind of the resource.
func (n *Normaliser) foreign(p *pass) bool {
	if len(p.kind) == 0 || string(p.kind) == "PartialObjectMetadata" {
		return false
	}
	return string(p.kind) != n.kind || string(p.apiVersion) != n.apiVersion
}

// data renders the normalised object as the beginning of an event's data.
func (n *Normaliser) data(p *pass, o *Object, from, end int, m *Memory) {
	// What lies before or behind the object is not part of it.
	p.Forget(end)
	edits := p.Edits
	for len(edits) > 0 && edits[0].From < from {
		edits = edits[1:]
	}
	from++ // the brace is in the prefix
	if p.shape.changes() {
		p.buffers.object = n.render(p.buffers.object[:0], p, edits, from, end)
		p.shape.data(&p.buffers, o, m)
		return
	}
	size := len(n.prefix) + end - from + form.DataOverhead
	for _, e := range edits {
		size -= e.To - e.From
	}
	head := form.OpenData(m.room(size))
	o.Data = n.render(head, p, edits, from, end)
}

// render appends the object to dst: what is not in the prefix is p.data[from:end], with
// its edits left out.
func (n *Normaliser) render(dst []byte, p *pass, edits []jsonend.Edit, from, end int) []byte {
	dst = append(dst, n.prefix...)
	for _, e := range edits {
		dst = append(dst, p.Data[from:e.From]...)
		from = e.To
	}
	return append(dst, p.Data[from:end]...)
}
