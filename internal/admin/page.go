package admin

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/page"
)

// maxPages bounds the open pages of all listeners together: each is a goroutine and a
// connection.
const maxPages = 64

// newPage returns the handler of the page: its files, and the stream of the status.
func (s *Server) newPage() http.Handler {
	states := &page.Stream{Render: s.line, Ended: s.ending.Done(), Dropped: s.dropSlow}
	mux := http.NewServeMux()
	mux.Handle("/", page.Files())
	mux.Handle("GET /page/status", s.limited(maxPages, states))
	return mux
}

// dropSlow notes a page or tail that informd drops, because it does not read.
func (s *Server) dropSlow() {
	s.refused.WithLabelValues("slow").Inc()
	s.options.Logger.Info("slow reader dropped", "next", "informd_admin_refused_total counts all")
}

// line is the status as JSON on one line.
func (s *Server) line() []byte {
	var b bytes.Buffer
	if err := json.NewEncoder(display.JSONWriter(&b)).Encode(s.now()); err != nil {
		s.options.Logger.Debug("status not available", "err", err)
		return []byte("null")
	}
	return bytes.TrimSpace(b.Bytes())
}
