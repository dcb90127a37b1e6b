package replay

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/test/bench/corpus"
)

// bookmarkEvery is how often a watch is told of the newest revision.
const bookmarkEvery = time.Minute

// objectWatch is one watch of the corpus.
type objectWatch struct {
	server    *Server
	w         http.ResponseWriter
	r         *http.Request
	namespace string
	buffer    []byte
	at        atomic.Uint64 // the revision up to which everything was written
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, namespace string) {
	q := r.URL.Query()
	from, err := revisionOf(q.Get("resourceVersion"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o := &objectWatch{server: s, w: w, r: r, namespace: namespace}
	initial := q.Get("sendInitialEvents") == "true"
	if from == 0 || initial {
		from = s.history.now()
	}
	o.at.Store(from)
	s.mu.Lock()
	s.watches[o] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watches, o)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if seconds, err := strconv.Atoi(q.Get("timeoutSeconds")); err == nil {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	if o.flush() && (!initial || o.initialEvents()) {
		o.follow(ctx)
	}
}

// initialEvents sends every object as it was when the watch began, and the bookmark
// that ends them, and says whether the client is still there.
func (o *objectWatch) initialEvents() bool {
	s, at := o.server, o.at.Load()
	setCork(o.r.Context(), true)
	defer setCork(o.r.Context(), false)
	for i := range s.options.Objects {
		if o.namespace != "" && corpus.Namespace(i) != o.namespace {
			continue
		}
		o.buffer = s.options.Corpus.Append(o.buffer, corpus.Added, corpus.Object{Index: i, Revision: s.history.last(i, at), Sent: s.stamp()})
		s.listed.Add(1)
		if len(o.buffer) >= writeSize && !o.write() {
			return false
		}
	}
	return o.bookmark(true)
}

// follow sends what happens until ctx ends or the client is gone.
func (o *objectWatch) follow(ctx context.Context) {
	s := o.server
	tick := time.NewTicker(bookmarkEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		at := o.at.Load()
		head := s.history.beyond(ctx, at, tick.C)
		if head == at {
			if ctx.Err() == nil && !o.bookmark(false) {
				return
			}
			continue
		}
		setCork(o.r.Context(), head-at >= manyEvents)
		for at < head && ctx.Err() == nil {
			at = o.render(at, head)
			if !o.write() {
				return
			}
			o.at.Store(at)
		}
		if !o.flush() {
			return
		}
		setCork(o.r.Context(), false)
	}
}

// render fills the buffer with what follows a revision, and returns how far it came.
func (o *objectWatch) render(at, head uint64) uint64 {
	s := o.server
	for at < head && len(o.buffer) < writeSize {
		at++
		i := s.history.at(at)
		if o.namespace != "" && corpus.Namespace(i) != o.namespace {
			continue
		}
		o.buffer = s.options.Corpus.Append(o.buffer, corpus.Modified, corpus.Object{Index: i, Revision: at, Sent: s.stamp()})
		s.sent.Add(1)
	}
	return at
}

// bookmark tells the client how far it has come, or that it has all objects.
func (o *objectWatch) bookmark(initial bool) bool {
	c, annotations := o.server.options.Corpus, ""
	if initial {
		annotations = fmt.Sprintf(`,"annotations":{%q:"true"}`, metav1.InitialEventsAnnotationKey)
	}
	o.buffer = fmt.Appendf(o.buffer, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","creationTimestamp":null%s}}}`+"\n",
		c.Kind, c.Resource.GroupVersion().String(), o.at.Load(), annotations)
	return o.write() && o.flush()
}

// write gives the buffer to the connection.
func (o *objectWatch) write() bool {
	if len(o.buffer) == 0 {
		return true
	}
	_, err := o.w.Write(o.buffer)
	o.buffer = o.buffer[:0]
	return err == nil
}

func (o *objectWatch) flush() bool { return http.NewResponseController(o.w).Flush() == nil }
