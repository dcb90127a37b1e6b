package informertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// batchSize is how many bytes of frames a watch sends together.
const batchSize = 32 << 10

// watch is the body of the answer to a watch. Its reader makes the frames, so that no goroutine
// runs for it.
type watch struct {
	*request

	cluster *Cluster
	timer   *time.Timer // nil without a limit of time
	closed  chan struct{}
	close   sync.Once

	from uint64 // the revision to begin after

	// The lock of the cluster guards what follows.
	next            int    // in the history
	marked          uint64 // revision of the last bookmark
	bookmark, ended bool

	// Read alone uses what follows.
	unread bytes.Buffer
	err    error // after unread
}

// watch answers a request for a watch.
func (c *Cluster) watch(r *request) *http.Response {
	from, err := strconv.ParseUint(r.query["resourceVersion"], 10, 64)
	if err != nil && r.query["resourceVersion"] != "" {
		return refusal(http.StatusBadRequest, "resourceVersion is not valid", 0)
	}
	if r.query["sendInitialEvents"] != "" {
		return refusal(http.StatusUnprocessableEntity, "sendInitialEvents is forbidden: informertest sends no initial events", 0)
	}
	w := &watch{request: r, cluster: c, closed: make(chan struct{})}
	switch {
	case from == 0: // any state will do
		from = c.store.rev
		for _, o := range c.store.at(r.of.groupResource(), from) {
			if r.selects(o) {
				w.frame("ADDED", r.render(o, o.rev))
			}
		}
	case from < c.store.compacted:
		w.frame("ERROR", status(http.StatusGone, fmt.Sprintf("too old resource version: %d (%d)", from, c.store.compacted), 0))
		w.err = io.EOF
	}
	w.from, w.next = from, c.store.after(from)
	if limit, _ := strconv.Atoi(r.query["timeoutSeconds"]); limit > 0 {
		w.timer = time.NewTimer(time.Duration(limit) * time.Second)
	}
	c.watches[w] = struct{}{}
	return respond(http.StatusOK, w)
}

// Close ends the watch.
func (w *watch) Close() error {
	w.close.Do(func() {
		close(w.closed)
		w.cluster.mu.Lock()
		defer w.cluster.mu.Unlock()
		delete(w.cluster.watches, w)
		if w.timer != nil {
			w.timer.Stop()
		}
	})
	return nil
}

// Read blocks until there is a frame.
func (w *watch) Read(p []byte) (int, error) {
	for w.unread.Len() == 0 {
		if w.err != nil {
			return 0, w.err
		}
		var over <-chan time.Time
		if w.timer != nil {
			over = w.timer.C
		}
		changed, held := w.fill()
		if w.unread.Len() > 0 || w.err != nil {
			continue
		}
		select {
		case <-changed:
		case <-held:
		case <-over:
			w.err = io.EOF
		case <-w.closed:
			return 0, net.ErrClosed
		case <-w.Context().Done():
			return 0, w.Context().Err()
		}
	}
	return w.unread.Read(p)
}

// fill makes the frames that can be sent now, or the error that ends the watch. The channels are to
// be waited for; held can be nil.
func (w *watch) fill() (changed, held <-chan struct{}) {
	c := w.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.ended {
		delete(c.watches, w)
		w.err = io.EOF
		return nil, nil
	}
	if f := c.fault(w.request, holds); f != nil {
		return c.changed, f.Hold
	}
	for ; w.next < len(c.store.history) && w.unread.Len() < batchSize && w.err == nil; w.next++ {
		w.send(c.store.history[w.next])
	}
	if w.next < len(c.store.history) || w.err != nil || w.query["allowWatchBookmarks"] != "true" {
		return c.changed, nil
	}
	if w.bookmark || !c.silent && w.marked != c.store.rev && w.from <= c.store.rev {
		w.marked, w.bookmark = c.store.rev, false
		w.sendBookmark()
	}
	return c.changed, nil
}

// send makes the frame of a change, if the watch selects it.
func (w *watch) send(c change) {
	of := c.before
	if of == nil {
		of = c.after
	}
	if of.of != w.of.groupResource() {
		return
	}
	kind, shown := "MODIFIED", c.after
	switch was, is := w.selects(c.before), w.selects(c.after); {
	case !was && !is:
		return
	case !was:
		kind = "ADDED"
	case !is:
		kind, shown = "DELETED", c.before // it was deleted, or left the selection
	}
	begin := w.unread.Len()
	w.frame(kind, w.render(shown, c.rev))
	if f := w.cluster.fault(w.request, doubles); f != nil {
		f.left--
		w.unread.Write(bytes.Clone(w.unread.Bytes()[begin:]))
	}
	if f := w.cluster.fault(w.request, cuts); f != nil {
		f.left--
		w.unread.Truncate((begin + w.unread.Len()) / 2)
		w.err = io.ErrUnexpectedEOF
	}
}

func (w *watch) sendBookmark() {
	kind, apiVersion := w.of.Kind, w.of.groupVersion().String()
	if w.metadataOnly() {
		kind, apiVersion = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	w.frame("BOOKMARK", map[string]any{
		"kind": kind, "apiVersion": apiVersion,
		"metadata": map[string]any{"resourceVersion": strconv.FormatUint(w.marked, 10), "creationTimestamp": nil},
	})
}

// frame appends a frame.
func (w *watch) frame(kind string, o any) {
	encoder := json.NewEncoder(&w.unread)
	encoder.SetEscapeHTML(false)
	fmt.Fprintf(&w.unread, `{"type":%q,"object":`, kind)
	if err := encoder.Encode(o); err != nil {
		panic(fmt.Sprintf("informertest: object is no JSON: %v", err)) // it came as JSON
	}
	w.unread.Truncate(w.unread.Len() - 1) // the newline of Encode
	w.unread.WriteString("}\n")
}
