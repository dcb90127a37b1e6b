package listwatch

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/podserver"
)

// TestOverloadIsForAll: an API server that refuses requests of one target is left alone by
// the others, too, and one resource that is not ready holds up no other.
func TestOverloadIsForAll(t *testing.T) {
	const asking, overload, delay = 60, 60 * time.Second, 2 * time.Second
	for name, test := range map[string]struct {
		status      string
		least, most int64
	}{
		// In each period those are refused that were on their way at its beginning. Each can
		// be refused once more after the longest time that a request waits.
		"overloaded": {"Too many requests, please try again later.", asking, 2*asking + int64(overload/delay)*2*kube.HeadWidth},
		"not ready": {
			`{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"reason":"TooManyRequests","message":"storage is (re)initializing","details":{"retryAfterSeconds":2}}`,
			asking * int64(overload/delay) * 8 / 10, asking * int64(overload/delay) * 12 / 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var requests atomic.Int64
				s := sourceOnPipes(t, func(w http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					if time.Since(began) > overload {
						podserver.WritePage(w, r, 0)
						return
					}
					w.Header().Set("Retry-After", "2")
					if test.status[0] == '{' {
						w.Header().Set("Content-Type", "application/json")
					}
					w.WriteHeader(http.StatusTooManyRequests)
					_, _ = io.WriteString(w, test.status)
				})
				var all sync.WaitGroup
				for range asking {
					all.Go(func() {
						for {
							_, err := s.Revision(t.Context())
							wait, busy := kube.Throttled(err)
							if err == nil {
								return
							}
							if !busy {
								t.Error(err)
								return
							}
							<-time.After(wait)
						}
					})
				}
				all.Wait()
				if n := requests.Load(); n < test.least || n > test.most {
					t.Errorf("%d requests, want between %d and %d", n, test.least, test.most)
				}
			})
		})
	}
}
