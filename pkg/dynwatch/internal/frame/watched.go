package frame

import (
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/internal/jsonend"
)

// Watched is what a watch delivers for the frames ADDED, MODIFIED, DELETED and
// BOOKMARK; ERROR frames deliver a [*metav1.Status]. Frames that have arrived together
// come in one event of the watch, the first of them with the others behind it: to hand
// each over to another goroutine would cost as much as half of its bytes. They are
// valid until the next event is received: their Data is written over then. That of the
// last event that is received stays.
type Watched struct {
	// Kind is the frame's, the event's own for the first one.
	Kind watch.EventType
	// Object is the frame's object. Of a bookmark only the ResourceVersion is
	// set. It is zero if Err is set.
	Object
	// Err is set if the frame's object is malformed. The watch continues: an error of the
	// decoder would end it.
	Err *Malformed

	next *Watched
}

// Done ends the use of w and returns the frame that came after it in the same event,
// nil if none did. An idle watch keeps nothing alive of what is done.
func (w *Watched) Done() *Watched {
	next := w.next
	*w = Watched{}
	return next
}

// GetObjectKind makes Watched a [runtime.Object]. There is no kind: the caller
// knows it from discovery.
func (w *Watched) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject makes Watched a [runtime.Object]. A watch copies none: this returns w.
func (w *Watched) DeepCopyObject() runtime.Object { return w }

// watched normalises the object that begins at data[from], of an added, modified
// or deleted frame, and returns the index behind it, or none.
func (n *Normaliser) watched(data []byte, from int, m *Memory) (w Watched, end int) {
	p := n.begin(data)
	defer n.end(p)
	defer func() {
		if fault := recover(); fault != nil {
			w, end = Watched{Err: crashed(fault, len(data)-from)}, jsonend.None
		}
	}()
	end = p.run(from)
	raw := data[from:]
	if end != jsonend.None {
		raw = data[from:end]
	}
	o, bad := n.finish(p, raw, from, end, m)
	return Watched{Object: o, Err: bad}, end
}

// bookmark is watched for a bookmark, of which only the revision counts. Servers without
// etcd below send bookmarks without one: they show that the watch is alive.
func (n *Normaliser) bookmark(data []byte, from int) (w Watched, end int) {
	p := n.begin(data)
	defer n.end(p)
	end = p.run(from)
	if end == jsonend.None {
		return Watched{Err: p.malformed(data[from:], p.syntax(from))}, end
	}
	if p.reason != "" && p.resourceVersion != 0 {
		return Watched{Err: p.malformed(data[from:end], p.reason)}, end
	}
	return Watched{Object: Object{ResourceVersion: p.resourceVersion}}, end
}

// status decodes the Status of an ERROR frame. What is no Status becomes one that
// says so: an error of the server must not be lost over its form.
func status(raw []byte) *metav1.Status {
	var s metav1.Status
	if err := json.Unmarshal(raw, &s); err != nil || s.Status == "" && s.Message == "" && s.Code == 0 {
		return &metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusInternalServerError,
			Reason:  metav1.StatusReasonInternalError,
			Message: "the server ended the watch with an error that is not a Status object",
		}
	}
	return &s
}
