package replica

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
)

// LeaseAPI is an API server that has one Lease at most, and refuses stale writes.
type LeaseAPI struct {
	mu      sync.Mutex
	lease   map[string]any
	version int
	down    bool
	asked   int
}

// RoundTrip implements [http.RoundTripper].
func (a *LeaseAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	a.asked++
	if code, reason, message := a.change(r); code != http.StatusOK {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code,
		})
	} else {
		_ = json.NewEncoder(w).Encode(a.lease)
	}
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// change does what a request wants, if it is allowed.
func (a *LeaseAPI) change(r *http.Request) (code int, reason, message string) {
	switch {
	case a.down:
		return http.StatusServiceUnavailable, "ServiceUnavailable", fmt.Sprint("down for request ", a.asked)
	case r.Method != http.MethodPost && a.lease == nil:
		return http.StatusNotFound, "NotFound", ""
	case r.Method == http.MethodGet:
		return http.StatusOK, "", ""
	case r.Method == http.MethodPost && a.lease != nil:
		return http.StatusConflict, "AlreadyExists", ""
	}
	var sent map[string]any
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &sent); err != nil {
		return http.StatusBadRequest, "BadRequest", err.Error()
	}
	meta, _ := sent["metadata"].(map[string]any)
	if r.Method == http.MethodPut && meta["resourceVersion"] != strconv.Itoa(a.version) {
		return http.StatusConflict, "Conflict", ""
	}
	a.version++
	meta["resourceVersion"] = strconv.Itoa(a.version)
	a.lease = sent
	return http.StatusOK, "", ""
}

// Remove deletes the Lease, as a user may.
func (a *LeaseAPI) Remove() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lease = nil
}

// Note returns an annotation.
func (a *LeaseAPI) Note(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	meta, _ := a.lease["metadata"].(map[string]any)
	notes, _ := meta["annotations"].(map[string]any)
	s, _ := notes[name].(string)
	return s
}

func (a *LeaseAPI) breaks(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
}
