package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/informd/informd/internal/jsonend"
)

// ListMeta is a list's own metadata.
type ListMeta struct {
	// ResourceVersion is 0 if the server names none or "0", as some aggregated API
	// servers.
	ResourceVersion uint64
	// Continue asks for the next page; it is empty on the last one.
	Continue string
	// RemainingItems is how many items are on later pages, 0 if the server does
	// not say.
	RemainingItems int64
}

// ReadList reads the response to a list request and calls item for every item, as
// it arrives. Raw is valid during the call only. An item of more than maxItem bytes is an error.
//
// ReadList keeps one item of the response at a time, and nothing after the
// return. Items may come before or after the list's metadata; "items" may be null.
// The error is item's own, [io.ErrUnexpectedEOF] if the response ends too early, or
// says what is wrong with it.
func ReadList(r io.Reader, maxItem int, item func(raw []byte) error) (ListMeta, error) {
	l := listReader{window: window{r: r, max: maxItem}, item: item}
	err := l.list()
	return l.meta, err
}

// listReader reads one list.
type listReader struct {
	window window
	item   func(raw []byte) error
	// ahead, if there is one, takes the item that data begins with, if all of it is
	// there, and returns its size; else 0.
	ahead func(data []byte) (size int, err error)
	last  int // the size of the last item
	items int
	meta  ListMeta
	// What was met of the members that are read.
	hasItems, hasMeta bool
	// isList: the kind says so.
	isList bool
}

// malformed says what is wrong with the response where the unread part begins.
func (l *listReader) malformed(fault string) error {
	return fmt.Errorf("read list: %s at byte %d, after %d items", fault, l.window.consumed, l.items)
}

// more reads on within the list.
func (l *listReader) more() error {
	err := l.window.more()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// peek steps over white space and returns the next byte.
func (l *listReader) peek() (byte, error) {
	for {
		unread := l.window.unread()
		trimmed := bytes.TrimLeft(unread, " \t\r\n")
		l.window.consume(len(unread) - len(trimmed))
		if len(trimmed) > 0 {
			return trimmed[0], nil
		}
		if err := l.more(); err != nil {
			return 0, err
		}
	}
}

// list reads all of it. Servers whose Go type has omitempty write an empty list without
// items: its kind and its revision say what it is. Any other response without items is no
// list: taking it for an empty one would mean that everything was deleted.
func (l *listReader) list() error {
	c, err := l.peek()
	if err != nil {
		return err
	}
	if c != '{' {
		return fmt.Errorf("read list: %w", begins(c))
	}
	if err := l.sequence('}', l.member); err != nil {
		return err
	}
	if !l.hasItems && !(l.isList && l.meta.ResourceVersion != 0) {
		return errors.New("read list: the response has no items and is no list")
	}
	return nil
}

// sequence steps over the bracket that is next and reads elements with commas
// between them until it has stepped over the closing bracket.
func (l *listReader) sequence(closing byte, element func() error) error {
	l.window.consume(1)
	c, err := l.peek()
	for first := true; err == nil && (c != closing || !first); first = false {
		if err = element(); err != nil {
			return err
		}
		if c, err = l.peek(); err != nil {
			return err
		}
		if c == closing {
			break
		}
		if c != ',' {
			return l.malformed(fmt.Sprintf("a comma or %q is expected", closing))
		}
		l.window.consume(1)
		c, err = l.peek()
	}
	if err == nil {
		l.window.consume(1)
	}
	return err
}

// member reads one member of the list.
func (l *listReader) member() error {
	key, err := l.key()
	if err != nil {
		return err
	}
	switch key {
	case "items":
		if l.hasItems {
			return l.malformed("the list has items twice")
		}
		l.hasItems = true
		return l.readItems()
	case "metadata":
		if l.hasMeta {
			return l.malformed("the list has metadata twice")
		}
		l.hasMeta = true
		return l.readMeta()
	}
	raw, err := l.value()
	if key == "kind" {
		l.isList = bytes.HasSuffix(raw, []byte(`List"`))
	}
	l.window.consume(len(raw))
	return err
}

// key reads a key and its colon.
func (l *listReader) key() (string, error) {
	c, err := l.peek()
	if err != nil {
		return "", err
	}
	if c != '"' {
		return "", l.malformed("a key is expected")
	}
	raw, err := l.value()
	if err != nil {
		return "", err
	}
	s := jsonend.Scanner{Data: raw}
	key := string(s.Decoded(0))
	l.window.consume(len(raw))
	if c, err = l.peek(); err != nil {
		return "", err
	}
	if c != ':' {
		return "", l.malformed("a colon is expected")
	}
	l.window.consume(1)
	_, err = l.peek()
	return key, err
}

// value reads on until the value that is next is complete and valid, and returns
// it without stepping over it.
func (l *listReader) value() ([]byte, error) {
	raw, err := l.extent()
	if err != nil {
		return nil, err
	}
	s := jsonend.Scanner{Data: raw}
	if end := s.Value(0, 0); end != len(raw) {
		s.Fail(end, "a value is malformed")
		return nil, l.malformed(s.Fault)
	}
	return raw, nil
}

// extent reads on until the value that is next is complete, and returns it. It looks for the end
// again only when there is twice as much, so that a large value does not take longer for its parts.
func (l *listReader) extent() ([]byte, error) {
	for least := 0; ; {
		var err error
		for err == nil && len(l.window.unread()) < least {
			err = l.more()
		}
		unread := l.window.unread()
		end := jsonend.Value(unread, 0)
		switch {
		case end != jsonend.None && (end < len(unread) || strings.IndexByte(`"{[`, unread[0]) >= 0): // numbers go on
			return bytes.TrimRight(unread[:end], " \t\r\n"), nil
		case errors.Is(err, errFull):
			return nil, l.malformed(fmt.Sprintf("a value is larger than %d MiB", l.window.max>>20))
		case err != nil:
			return nil, err
		}
		least = 2*len(unread) + 1
	}
}

func (l *listReader) readItems() error {
	c, err := l.peek()
	switch {
	case err != nil:
		return err
	case c == '[':
		return l.sequence(']', l.readItem)
	}
	raw, err := l.value()
	if err == nil && string(raw) != "null" {
		err = l.malformed("items is not an array")
	}
	l.window.consume(len(raw))
	return err
}

func (l *listReader) readItem() error {
	if c, err := l.peek(); err != nil {
		return err
	} else if c != '{' {
		return l.malformed("an item is not an object")
	}
	// What is much smaller than the last item will hardly be a whole one.
	if unread := l.window.unread(); l.ahead != nil && len(unread) >= l.last {
		size, err := l.ahead(unread)
		if size > 0 || err != nil {
			l.step(size)
			return err
		}
	}
	raw, err := l.extent()
	if err != nil {
		return err
	}
	if err := l.item(raw); err != nil {
		return err
	}
	l.step(len(raw))
	return nil
}

// step steps over a whole item.
func (l *listReader) step(size int) {
	l.items++
	l.last = size
	l.window.consume(size)
}

func (l *listReader) readMeta() error {
	raw, err := l.value()
	if err != nil {
		return err
	}
	var meta struct {
		ResourceVersion    string `json:"resourceVersion"`
		Continue           string `json:"continue"`
		RemainingItemCount int64  `json:"remainingItemCount"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return fmt.Errorf("read list: decode the metadata of the list: %w", err)
	}
	l.meta = ListMeta{Continue: meta.Continue, RemainingItems: meta.RemainingItemCount}
	if rv := meta.ResourceVersion; rv != "" && rv != noRevision {
		var ok bool
		if l.meta.ResourceVersion, ok = parseRevision([]byte(rv)); !ok {
			return l.malformed("the resourceVersion is not a decimal number, and informd cannot watch without one")
		}
	}
	l.window.consume(len(raw))
	return nil
}

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
	if end == jsonend.None {
		return Object{}, 0
	}
	o, bad := n.finish(p, data[:end], 0, end, m)
	if bad != nil {
		return Object{}, 0
	}
	return o, end
}
