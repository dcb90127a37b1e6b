package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Hook is a webhook's other side, which keeps what it takes.
type Hook struct {
	URL string

	mu       sync.Mutex
	requests int
	taken    []Record
	// refuse is the answer to an event in place of 204; nil or 0: it is taken.
	refuse func(Record) int
}

// StartHook starts one, until the end of the test.
func StartHook(t *testing.T) *Hook {
	t.Helper()
	h := &Hook{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r, err := DecodeEvent(request.Body)
		if err != nil {
			t.Errorf("webhook: %v", err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.requests++
		if h.refuse != nil {
			if code := h.refuse(r); code != 0 {
				w.WriteHeader(code)
				return
			}
		}
		h.taken = append(h.taken, r)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	h.URL = server.URL
	return h
}

// Sink is the YAML of a webhook sink to it.
func (h *Hook) Sink() string { return fmt.Sprintf("- {name: hook, type: webhook, url: %q}", h.URL) }

// Set changes what the hook refuses.
func (h *Hook) Set(refuse func(Record) int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = refuse
}

// Events returns what was taken, from the one with that index on.
func (h *Hook) Events(from int) []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Record(nil), h.taken[from:]...)
}

// Calls is how many requests came, with those that were refused.
func (h *Hook) Calls() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests
}
