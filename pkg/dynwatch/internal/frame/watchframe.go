package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/internal/jsonend"
)

// watchFrame is one frame of a watch, as far as it could be read.
type watchFrame struct {
	kind watch.EventType
	// watched is the frame's object, unless kind is [watch.Error]: then status is.
	watched Watched
	status  *metav1.Status
	// end is the index behind the frame, or none if its grammar is broken.
	end int
	// err says that this is no frame.
	err error
}

// frame reads the frame that begins at data[0], a brace. The strings of its object are
// written into m, and its data.
func (n *Normaliser) frame(data []byte, m *Memory) watchFrame {
	kind, from := usualEnvelope(data)
	if from == 0 {
		return n.anyFrame(data, m)
	}
	f := n.content(kind, data, from, m)
	if f.err != nil || f.end == jsonend.None {
		return f
	}
	if f.end == len(data) || data[f.end] != '}' {
		return n.anyFrame(data, m)
	}
	f.end++
	return f
}

// usualEnvelope reads the beginning of a frame as API servers write it,
// {"type":"ADDED","object":, and returns its type and where the object begins, or
// 0 if it is another.
func usualEnvelope(data []byte) (kind []byte, object int) {
	const open, between = `{"type":"`, `","object":`
	rest, ok := bytes.CutPrefix(data, []byte(open))
	if !ok {
		return nil, 0
	}
	n := bytes.IndexByte(rest, '"')
	if n < 0 || !bytes.HasPrefix(rest[n:], []byte(between)) {
		return nil, 0
	}
	return rest[:n], len(open) + n + len(between)
}

// anyFrame reads a frame in any form: members in any order, with white space, with
// members that are not known.
func (n *Normaliser) anyFrame(data []byte, m *Memory) watchFrame {
	var frame struct {
		Type   string
		Object json.RawMessage
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&frame); err != nil {
		return watchFrame{err: fmt.Errorf("read watch frame: a line is no frame: %w", err)}
	}
	if frame.Type == "" || frame.Object == nil {
		return watchFrame{err: errors.New("read watch frame: the frame has no type or no object")}
	}
	f := n.content([]byte(frame.Type), frame.Object, 0, m)
	f.end = int(d.InputOffset())
	return f
}

// content reads the object at data[from] of a frame of that kind; the end is the
// object's.
func (n *Normaliser) content(kind, data []byte, from int, m *Memory) watchFrame {
	var f watchFrame
	switch watch.EventType(kind) {
	case watch.Added:
		f.kind = watch.Added
	case watch.Modified:
		f.kind = watch.Modified
	case watch.Deleted:
		f.kind = watch.Deleted
	case watch.Bookmark:
		f.kind = watch.Bookmark
		f.watched, f.end = n.bookmark(data, from)
		f.watched.Kind = f.kind
		return f
	case watch.Error:
		f.kind = watch.Error
		s := jsonend.Scanner{Data: data}
		if f.end = s.Value(from, 0); f.end == jsonend.None {
			f.err = fmt.Errorf("read watch frame: the error is invalid JSON: %s at byte %d", s.Fault, s.At)
			return f
		}
		f.status = status(data[from:f.end])
		return f
	default:
		return watchFrame{err: fmt.Errorf("read watch frame: the type is %.64q", kind)}
	}
	f.watched, f.end = n.watched(data, from, m)
	f.watched.Kind = f.kind
	return f
}
