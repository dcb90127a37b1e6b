package dynwatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// readers stand for a log that keeps so many events of an object, and for a reader of
// it that reads when it is waited for and at no other time.
type readers struct {
	keeps int
	// deaf: the reader is waited for in vain.
	deaf bool
	// slow is how long the reader takes.
	slow time.Duration

	mu     sync.Mutex
	unread map[string]int
	// lost is how many events were pushed out unread, asked how often was waited.
	lost, asked int
}

func newReaders(keeps int) *readers { return &readers{keeps: keeps, unread: map[string]int{}} }

func (r *readers) append(events []event.Event) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range events {
		key := events[i].Key()
		if r.unread[key]++; r.unread[key] > r.keeps {
			r.lost++
		}
	}
}

// await gives events of one object room one by one.
func (r *readers) await(ctx context.Context, events []event.Event) (int, error) {
	if r == nil {
		return len(events), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.deaf {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if r.unread[events[0].Key()] >= r.keeps {
		<-time.After(r.slow)
		clear(r.unread)
	}
	return 1, nil
}

func (r *readers) counts() (lost, asked int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost, r.asked
}

// TestHistoryWaitsForReaders makes up for history in every way, with a log that keeps
// two events of an object.
func TestHistoryWaitsForReaders(t *testing.T) {
	ways := map[string]func(t *testing.T, log *readers) *rig{
		"walk": func(t *testing.T, log *readers) *rig { return missed(t, log, walking) },
		"lists": func(t *testing.T, log *readers) *rig {
			return missed(t, log, func(*dynwatch.Limits) {})
		},
		"watch": func(t *testing.T, log *readers) *rig {
			api := newFakeAPI(t)
			api.put("a", "x", "")
			r := startReading(t, api, log, walking)
			r.caughtUp()
			r.stop(false)
			hundred(api)
			r.begin(things())
			r.caughtUp()
			checkStream(t, r.log.all(), api)
			return r
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			log := newReaders(2)
			r := way(t, log)
			if got := len(r.log.all()); got < 100 {
				t.Errorf("%d events, want all 100 revisions and some", got)
			}
			if lost, asked := log.counts(); lost > 0 || asked == 0 {
				t.Errorf("%d events were pushed out unread, %d times waited", lost, asked)
			}
		})
	}
}

func startReading(t *testing.T, api *fakeAPI, log *readers, limit func(*dynwatch.Limits)) *rig {
	t.Helper()
	return startOn(t, api, func(r *recorder) { r.readers = log }, limit, things())
}

// missed has a target make up for the hundred.
func missed(t *testing.T, log *readers, limit func(*dynwatch.Limits)) *rig {
	t.Helper()
	api := newFakeAPI(t)
	api.put("a", "x", "")
	r := startReading(t, api, log, limit)
	n := r.lose(hundred)
	r.eventually("all revisions", func() bool { return len(r.log.all()) >= n+100 })
	r.caughtUp()
	checkStream(t, r.log.all(), api)
	return r
}

// hundred writes so many revisions of one object.
func hundred(api *fakeAPI) {
	for range 100 {
		api.put("a", "x", "")
	}
}

// TestWaitingIsNotTheWalksTime: the walk has less time than readers take.
func TestWaitingIsNotTheWalksTime(t *testing.T) {
	log := newReaders(2)
	log.slow = 120 * time.Millisecond // 50 times
	api := newFakeAPI(t)
	api.put("a", "x", "")
	r := startReading(t, api, log, func(l *dynwatch.Limits) { l.Revisions, l.Time, l.Bodies = 0, 5*time.Second, 2000 })
	n := r.lose(hundred)
	r.wantGap(n, event.RecoveredKnown)
	if lost, _ := log.counts(); lost > 0 {
		t.Errorf("%d events were pushed out unread", lost)
	}
}

// TestHistoryDoesNotWaitForEver has a reader that reads nothing.
func TestHistoryDoesNotWaitForEver(t *testing.T) {
	log := newReaders(2)
	log.deaf = true
	api := newFakeAPI(t)
	api.put("a", "x", "")
	r := startReading(t, api, log, func(l *dynwatch.Limits) { l.Revisions, l.Patience = 0, time.Second })
	for round := range 2 {
		n := r.lose(hundred)
		began := time.Now()
		r.wantGap(n, event.RecoveredKnown)
		if waited := time.Since(began); waited < 200*time.Millisecond {
			t.Errorf("round %d: waited %v", round, waited)
		}
		if _, asked := log.counts(); asked != round+1 {
			t.Errorf("round %d: waited %d times, want once in a round", round, asked)
		}
		api.put("a", "x", "") // it is live again
		r.caughtUp()
	}
}

// TestNowDoesNotWait: a reader that reads nothing holds back nothing that happens now,
// nor a first list.
func TestNowDoesNotWait(t *testing.T) {
	log := newReaders(2)
	log.deaf = true
	api := newFakeAPI(t)
	for i := range 100 {
		api.put("a", fmt.Sprint("n", i), "")
	}
	r := startReading(t, api, log, walking)
	r.caughtUp()
	hundred(api)
	r.caughtUp()
	watches := r.manager.Targets()[0].Watches
	api.cut()
	r.eventually("another watch", func() bool { return r.manager.Targets()[0].Watches > watches })
	hundred(api)
	r.caughtUp()
	if _, asked := log.counts(); asked > 0 {
		t.Errorf("waited %d times", asked)
	}
}

// TestShortHistoryWaitsShortly: a break is not made much longer than it was.
func TestShortHistoryWaitsShortly(t *testing.T) {
	log := newReaders(2)
	log.deaf = true
	api := newFakeAPI(t)
	api.put("a", "x", "")
	r := startReading(t, api, log, walking)
	r.caughtUp()
	hundred(api) // it is live
	r.caughtUp()
	began := time.Now()
	n := r.lose(hundred)
	r.wantGap(n, event.RecoveredKnown)
	if took := time.Since(began); took > deadline/2 {
		t.Errorf("a break of some milliseconds took %v", took)
	}
}

// TestWaitingEndsWithTheTarget ends a manager that waits.
func TestWaitingEndsWithTheTarget(t *testing.T) {
	log := newReaders(2)
	log.deaf = true
	api := newFakeAPI(t)
	api.put("a", "x", "")
	r := startReading(t, api, log, walking)
	r.lose(hundred)
	r.eventually("it waits", func() bool { return r.manager.Targets()[0].Blocked })
	began := time.Now()
	r.stop(false)
	if took := time.Since(began); took > deadline/2 {
		t.Errorf("closing took %v", took)
	}
}
