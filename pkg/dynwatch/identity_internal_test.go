package dynwatch

import (
	"errors"
	"fmt"
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

// TestOtherClusterForbidsItsIdentity: a 403 while the address leads to another cluster does
// not turn the check off.
func TestOtherClusterForbidsItsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uid, forbidden := "right", false
		s := sourceOnPipes(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if forbidden {
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden"}`)
				return
			}
			fmt.Fprintf(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":%q}}`, uid)
		})
		check := func() error {
			<-time.After(time.Second) // a check of its own, on the simulated clock
			return s.clients.identity.check(t.Context())
		}
		if err := check(); err != nil {
			t.Fatal(err)
		}
		uid = "other"
		if err := check(); !errors.Is(err, errOtherCluster) {
			t.Fatal(err)
		}
		forbidden = true
		if err := check(); !errors.Is(err, errOtherCluster) {
			t.Fatal(err)
		}
		uid, forbidden = "right", false
		if err := check(); err != nil {
			t.Fatal(err)
		}
	})
}
