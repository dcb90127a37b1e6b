package dynwatch

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
