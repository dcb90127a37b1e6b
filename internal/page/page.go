// Package page is the web page of informd: files for the browser, embedded in the
// binary, the stream of states that the page shows, and how streams are sent. It decides
// nothing about access; package admin guards it like /status.
package page

import (
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"
)

//go:embed assets
var assets embed.FS

// policy lets the page load its own files and ask informd, and nothing else: no script or
// style inside the document, no other site, no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// Files serves the document at / and its parts below /page/. It is safe for concurrent use.
func Files() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	server := http.FileServerFS(files)
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", server)
	mux.Handle("GET /page/", http.StripPrefix("/page", server))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		// The files change with informd's version.
		header.Set("Cache-Control", "no-cache")
		mux.ServeHTTP(w, r)
	})
}

// Interval is how often an open page gets the state.
const Interval = 2 * time.Second

// Stream sends a state to open pages as server-sent events, all of them the same bytes. It
// keeps nothing for a page: one that does not read blocks its own request until informd
// drops it. Its methods are safe for concurrent use.
type Stream struct {
	// Render returns the state as JSON on one line. At most one call runs at a time, and
	// pages cause one per [Interval] at most, however many are open.
	Render func() []byte
	// Ended is closed when the server shuts down.
	Ended <-chan struct{}
	// Dropped is called for each page that does not read.
	Dropped func()

	mu   sync.Mutex
	last []byte
	at   time.Time
}

// now returns a message with the state, at most half an interval old.
func (s *Stream) now() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) >= Interval/2 {
		s.last = AppendMessage(nil, "", s.Render())
		s.at = time.Now()
	}
	return s.last
}

// ServeHTTP sends the state until the page is closed, does not read, or the server ends.
func (s *Stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := NewSender(w)
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		if _, err := out.Write(s.now()); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				s.Dropped()
			}
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-s.Ended:
			return
		}
	}
}
