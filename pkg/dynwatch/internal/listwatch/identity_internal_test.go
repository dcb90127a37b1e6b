package listwatch

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/podserver"
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
				if err := s.Clients.Identity.Check(t.Context()); err == nil {
					t.Error("no error")
				}
			})
		}
		all.Wait()
		if waited := time.Since(began); waited > 2*kube.IdentityTimeout {
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
			return s.Clients.Identity.Check(t.Context())
		}
		must(t, check())
		uid = "other"
		if err := check(); !errors.Is(err, kube.ErrOtherCluster) {
			t.Fatal(err)
		}
		forbidden = true
		if err := check(); !errors.Is(err, kube.ErrOtherCluster) {
			t.Fatal(err)
		}
		uid, forbidden = "right", false
		must(t, check())
	})
}

// TestAnswerOverANewConnection: the first answer of a new connection counts only if the
// connection leads to the right cluster. Later ones need no request for that.
func TestAnswerOverANewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var uid atomic.Value
		uid.Store("right")
		var checks atomic.Int64
		s := sourceOnPipes(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/api/v1/namespaces/kube-system" {
				checks.Add(1)
				fmt.Fprintf(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":%q}}`, uid.Load())
				return
			}
			podserver.WritePage(w, r, 1)
		})
		look := func() error { return third(s.ObjectAt(t.Context(), "a", "pod-0", 0)) }
		must(t, s.Clients.Identity.Check(t.Context()))
		for range 5 {
			<-time.After(time.Second)
			_ = look()
		}
		if n := checks.Load(); n != 2 {
			t.Errorf("%d requests for the identity, want one and one for the new connection", n)
		}
		s.Clients.CloseIdle()
		uid.Store("other")
		if err := look(); !errors.Is(err, kube.ErrOtherCluster) {
			t.Errorf("an answer of another cluster: %v", err)
		}
		uid.Store("right")
		if err := look(); errors.Is(err, kube.ErrOtherCluster) {
			t.Error(err)
		}
	})
}

// answers is a transport whose connections are unknown.
type answers struct{ uid string }

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/api/v1/namespaces/kube-system" {
		fmt.Fprintf(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":%q}}`, a.uid)
	} else {
		podserver.WritePage(w, r, 1)
	}
	return w.Result(), nil
}

// TestAnswerOfACallersTransport: any answer can be of another cluster.
func TestAnswerOfACallersTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &answers{"right"}
		s := podSource(t, &rest.Config{Host: "http://localhost", Transport: transport})
		look := func() error { return third(s.ObjectAt(t.Context(), "a", "pod-0", 0)) }
		must(t, s.Clients.Identity.Check(t.Context()))
		if err := look(); errors.Is(err, kube.ErrOtherCluster) {
			t.Fatal(err)
		}
		transport.uid = "other"
		<-time.After(time.Second)
		if err := look(); !errors.Is(err, kube.ErrOtherCluster) {
			t.Errorf("an answer of another cluster: %v", err)
		}
	})
}
