package dynwatch

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestPace: so many have their turn at a time, in whatever order, and who hangs
// does not keep the others from theirs.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		var mu sync.Mutex
		var now, most int
		count := func(change int) {
			mu.Lock()
			defer mu.Unlock()
			now += change
			most = max(most, now)
		}
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				end := p.begin(t.Context())
				defer end()
				count(1)
				<-time.After(10 * time.Millisecond)
				count(-1)
			})
		}
		all.Wait()
		if most != paceWidth {
			t.Errorf("%d at a time, want %d", most, paceWidth)
		}
		for range paceWidth {
			p.begin(t.Context()) // and never ends
		}
		began := time.Now()
		p.begin(t.Context())()
		if waited := time.Since(began); waited != paceWait {
			t.Errorf("waited %v behind those that hang", waited)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		p.begin(ended)()
	})
}

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
		"overloaded": {"Too many requests, please try again later.", asking, 2*asking + int64(overload/delay)*2*paceWidth},
		"not ready": {
			`{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"reason":"TooManyRequests","message":"storage is (re)initializing"}`,
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
						writePods(w, r, 0)
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
							_, err := s.revision(t.Context())
							wait, busy := throttled(err)
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

// TestOverloadHoldsNobodyForEver: refusals of other requests do not keep one from being
// made.
func TestOverloadHoldsNobodyForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		refused := apierrors.NewGenericServerResponse(http.StatusTooManyRequests, "get", schema.GroupResource{}, "", "too many", 1, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		p.note(refused)
		var others sync.WaitGroup
		others.Go(func() {
			for ctx.Err() == nil {
				<-time.After(time.Second / 2)
				p.note(refused)
			}
		})
		began := time.Now()
		p.open(ctx)
		if waited := time.Since(began); waited != paceLongest {
			t.Errorf("waited %v, want %v", waited, paceLongest)
		}
		cancel()
		others.Wait()
	})
}

// TestBudget: requests come back over time, and all that one asks for or none are taken.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 100*time.Second)
		for i, want := range []bool{true, false, true} {
			if got := b.take([]int{60, 50, 40}[i]); got != want {
				t.Errorf("take %d: %v", i, got)
			}
		}
		b.giveBack(10)
		<-time.After(20 * time.Second)
		if b.take(31) || !b.take(30) {
			t.Error("10 were given back and 20 came back")
		}
		<-time.After(time.Hour)
		if b.take(101) || !b.take(100) {
			t.Error("there are never more than at the beginning")
		}
	})
}
