package replay

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/informd/informd/test/bench/corpus"
)

// writeSize is about how many bytes are given to the connection at once.
const writeSize = 64 << 10

func formatRevision(revision uint64) string { return strconv.FormatUint(revision, 10) }

// page is what a list request asks for.
type page struct {
	at        uint64
	from      int // the object to begin with
	limit     int // 0: all
	namespace string
}

func (s *Server) pageOf(r *http.Request, namespace string) (page, error) {
	q := r.URL.Query()
	p := page{at: s.history.now(), namespace: namespace}
	p.limit, _ = strconv.Atoi(q.Get("limit")) // none is no limit
	if next := q.Get("continue"); next != "" {
		if _, err := fmt.Sscanf(next, "%d-%d", &p.at, &p.from); err != nil {
			return p, fmt.Errorf("continue token %q: %w", next, err)
		}
		return p, nil
	}
	at, err := revisionOf(q.Get("resourceVersion"))
	if err == nil && at != 0 && q.Get("resourceVersionMatch") == "Exact" {
		p.at = at
	}
	return p, err
}

// list answers one page. Its head comes first, as for a built-in kind, and the
// objects in the order of their numbers.
func (s *Server) list(w http.ResponseWriter, r *http.Request, namespace string) {
	p, err := s.pageOf(r, namespace)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	end, count := s.extent(p)
	next := ""
	if end < s.options.Objects {
		next = fmt.Sprintf("%d-%d", p.at, end)
	}
	w.Header().Set("Content-Type", "application/json")
	setCork(r.Context(), true)
	defer setCork(r.Context(), false)
	b := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","continue":%q,"remainingItemCount":%d},"items":[`,
		s.options.Corpus.Kind+"List", s.options.Corpus.Resource.GroupVersion().String(), p.at, next, max(0, s.options.Objects-end))
	if b, ok := s.items(w, p, count, b); ok {
		_, _ = w.Write(append(b, "]}\n"...)) // a client that is gone misses nothing
	}
}

// items writes the objects of a page, b before them. It returns what is not written
// yet, and whether the client is still there.
func (s *Server) items(w http.ResponseWriter, p page, count int, b []byte) ([]byte, bool) {
	for i, rendered := p.from, 0; rendered < count; i++ {
		if p.namespace != "" && corpus.Namespace(i) != p.namespace {
			continue
		}
		if rendered++; rendered > 1 {
			b = append(b, ',')
		}
		b = s.options.Corpus.Append(b, corpus.Item, corpus.Object{Index: i, Revision: s.history.last(i, p.at), Sent: s.stamp()})
		s.listed.Add(1)
		if len(b) < writeSize {
			continue
		}
		if _, err := w.Write(b); err != nil {
			return nil, false
		}
		b = b[:0]
	}
	return b, true
}

// extent is where a page ends, and how many objects it has.
func (s *Server) extent(p page) (end, count int) {
	for end = p.from; end < s.options.Objects; end++ {
		if p.namespace != "" && corpus.Namespace(end) != p.namespace {
			continue
		}
		if p.limit > 0 && count == p.limit {
			return end, count
		}
		count++
	}
	return end, count
}

func metadataOnly(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")
}

// stamp is what time it is, for the objects that are sent.
func (s *Server) stamp() int64 {
	if s.options.Clock == nil {
		return 0
	}
	return s.options.Clock()
}
