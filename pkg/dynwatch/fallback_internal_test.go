package dynwatch

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/spec"
)

// TestOtherVersionsAreAskedRarely: while no version of a resource answers, each attempt does
// not cost requests for all of them.
func TestOtherVersionsAreAskedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		server := &failingServer{before: func(w http.ResponseWriter, r *http.Request) bool {
			requests++
			if r.URL.Path == "/apis/example.com" {
				fmt.Fprint(w, `{"kind":"APIGroup","apiVersion":"v1","name":"example.com","versions":[{"version":"v2"},{"version":"v1"}],"preferredVersion":{"version":"v2"}}`)
				return true
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}}
		of := server.target(t, forgetful{}, 0)
		of.Spec = spec.Spec{Group: "example.com", Resource: "things"}
		of.Resolved = catalog.Resolved{GVR: schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "things"}, Kind: "Thing"}
		broken := apierrors.NewInternalError(http.ErrAbortHandler)
		const minutes = 10
		for range minutes * 12 {
			if err := of.Resolver.FallBack(t.Context(), broken); err == nil {
				t.Fatal("the target moved to a version that does not answer")
			}
			<-time.After(5 * time.Second)
		}
		if requests == 0 || requests > 2*(minutes+1) {
			t.Errorf("%d requests in %d minutes", requests, minutes)
		}
	})
}
