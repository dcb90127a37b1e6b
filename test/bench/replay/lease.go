package replay

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// lease is the one Lease of the server. An update with another resourceVersion than the Lease's is a conflict.
type lease struct {
	mu            sync.Mutex
	object        *unstructured.Unstructured
	version       uint64
	reads, writes int64
}

// serveLease answers requests for the Lease, and reports whether the path is of Leases.
func (s *Server) serveLease(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/") {
		return false
	}
	l := &s.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method != http.MethodGet {
		l.write(w, r)
		return true
	}
	if l.reads++; l.object == nil {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return true
	}
	writeJSON(w, l.object)
	return true
}

func (l *lease) write(w http.ResponseWriter, r *http.Request) {
	l.writes++
	var o unstructured.Unstructured
	err := json.NewDecoder(r.Body).Decode(&o.Object)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
	case r.Method == http.MethodPost && l.object != nil:
		refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
	case r.Method == http.MethodPut && (l.object == nil || o.GetResourceVersion() != l.object.GetResourceVersion()):
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
	default:
		l.version++
		o.SetResourceVersion(formatRevision(l.version))
		l.object = &o
		writeJSON(w, l.object)
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	writeJSON(w, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code),
	})
}
