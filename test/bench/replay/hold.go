package replay

import (
	"net/http"
	"sync"
)

// hold stops the server after so many objects of a list, until it is released.
type hold struct {
	mu       sync.Mutex
	after    int64 // 0: nothing is held
	released chan struct{}
}

// Hold stops lists, and the beginnings of watches, once n objects have been sent
// from now on, until Release. Whatever a client shows by then it has made of those.
func (s *Server) Hold(n int64) {
	s.hold.mu.Lock()
	defer s.hold.mu.Unlock()
	s.hold.after, s.hold.released = s.listed.Load()+n, make(chan struct{})
}

// Release ends a Hold.
func (s *Server) Release() {
	s.hold.mu.Lock()
	defer s.hold.mu.Unlock()
	if s.hold.after != 0 {
		s.hold.after = 0
		close(s.hold.released)
	}
}

func (h *hold) reached(listed int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.after != 0 && listed >= h.after
}

// wait flushes what was written, blocks until Release, and says whether the client is
// still there.
func (s *Server) wait(w http.ResponseWriter, r *http.Request) bool {
	s.hold.mu.Lock()
	released := s.hold.released
	s.hold.mu.Unlock()
	if http.NewResponseController(w).Flush() != nil {
		return false
	}
	setCork(r.Context(), false)
	select {
	case <-released:
		return true
	case <-r.Context().Done():
		return false
	}
}
