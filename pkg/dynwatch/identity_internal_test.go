package dynwatch

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdentityThatHangs: callers that wait for the identity share the failure of a request
// that hangs.
func TestIdentityThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sourceOnPipes(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		began := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := s.clients.identity.check(t.Context()); err == nil {
					t.Error("no error")
				}
			})
		}
		all.Wait()
		if waited := time.Since(began); waited > 2*identityTimeout {
			t.Errorf("waited %v", waited)
		}
	})
}
