package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// TestRandom has several appenders and cursors of different speed at work while
// history is trimmed and the server is restarted. Every cursor gets every event
// once and in order, or it is told how many were trimmed; deletions it gets all,
// each before the next object of the same name.
func TestRandom(t *testing.T) {
	h := newHost(t)
	j := h.open(history(3))
	const appenders, batches, objects = 4, 150, 8
	var appended atomic.Uint64
	var finished atomic.Bool
	var appending, reading sync.WaitGroup
	var watchers []*watcher
	watch := func(w *watcher) {
		w.t, w.j, w.ordinals, w.state, w.alive = t, j, map[string]uint64{}, map[string]string{}, map[string]string{}
		w.open()
		watchers = append(watchers, w)
		reading.Go(func() { w.run(func() bool { return finished.Load() && w.at == j.Stats().LastSeq }) })
	}
	var mu sync.Mutex
	state := map[string]string{} // name -> id of the last event
	watch(&watcher{name: "fast", limit: 256})
	watch(&watcher{name: "slow", limit: 16, pause: 2 * time.Millisecond})
	watch(&watcher{name: "slowest", limit: 5, pause: 10 * time.Millisecond})
	watch(&watcher{name: "again", limit: 64, pause: 3 * time.Millisecond, again: true})
	for i := range appenders {
		r := rand.New(rand.NewPCG(uint64(i), rand.Uint64()))
		appending.Go(func() {
			now := clock{}
			own := make([]*object, objects)
			for k := range own {
				own[k] = &object{name: fmt.Sprintf("a%d-%d", i, k)}
			}
			for range batches {
				var batch []event.Event
				for range 1 + r.IntN(6) {
					o := own[min(r.IntN(objects), r.IntN(objects))]
					op := event.Modified
					switch {
					case o.ordinal == 0:
						op = event.Added
					case r.IntN(10) == 0:
						op = event.Deleted
					}
					e := o.event(&now, op)
					if op == event.Deleted {
						o.ordinal = 0
					}
					e.Data = []byte(`{"object":"` + strings.Repeat("x", r.IntN(20_000)) + `"}`)
					batch = append(batch, e)
				}
				if err := j.Append(t.Context(), batch); err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				appended.Add(uint64(len(batch)))
				mu.Lock()
				for _, e := range batch {
					note(state, e)
				}
				mu.Unlock()
			}
		})
	}
	for i := range uint64(4) {
		until(t, "a quarter is appended", func() bool { return appended.Load() > i*appenders*batches/2 || t.Failed() })
		watch(&watcher{name: fmt.Sprint("new", i), limit: 16, pause: time.Millisecond, late: true})
		h.stop()
		h.start()
	}
	appending.Wait()
	finished.Store(true)
	reading.Wait()
	for _, w := range watchers {
		if all := appended.Load(); !w.late && (w.received+w.trimmed < all || w.opened == 1 && w.received+w.trimmed > all+w.deletions) {
			t.Errorf("%s: %d received and %d trimmed of %d", w.name, w.received, w.trimmed, all)
		}
		if diff := cmp.Diff(state, w.state); diff != "" {
			t.Errorf("%s ends with another state (-want +got):\n%s", w.name, diff)
		}
	}
}

// watcher reads with one cursor and checks what it gets.
type watcher struct {
	t     *testing.T
	j     *jetstream.Journal
	name  string
	limit int
	pause time.Duration
	again bool // closes now and then
	late  bool // begins with a snapshot

	cursor   journal.Cursor
	at       uint64 // the last sequence read
	received uint64 // events, not counting those that were read again
	missing  uint64 // events, by the ordinals of those that came
	trimmed  uint64
	opened   uint64 // times
	ordinals map[string]uint64
	state    map[string]string
	// alive has the UID of every object that was announced, by name.
	alive     map[string]string
	deletions uint64
}

// note keeps the state up to date.
func note(state map[string]string, e event.Event) {
	if e.Op.Ends() {
		delete(state, e.Name)
		return
	}
	state[e.Name] = e.ID
}

func (w *watcher) open() {
	start := journal.FromNow
	if w.late {
		start = journal.FromSnapshot
	}
	c, err := w.j.Open(w.name, start)
	if err != nil {
		w.t.Errorf("Open: %v", err)
		return
	}
	w.cursor = c
	w.opened++
}

func (w *watcher) run(done func() bool) {
	for reads := 1; !done() && !w.t.Failed(); reads++ {
		ctx, cancel := context.WithTimeout(w.t.Context(), 300*time.Millisecond)
		entries, err := w.cursor.Read(ctx, w.limit)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			w.t.Errorf("%s: Read: %v", w.name, err)
		}
		for _, e := range entries {
			w.check(e)
		}
		if err := w.cursor.Commit(w.t.Context(), w.at); err != nil {
			w.t.Errorf("%s: Commit: %v", w.name, err)
		}
		if w.again && reads%40 == 0 {
			if err := w.cursor.Close(); err != nil {
				w.t.Errorf("%s: Close: %v", w.name, err)
			}
			w.open()
		}
		<-time.After(w.pause)
	}
	w.t.Logf("%s: received %d, trimmed %d, opened %d", w.name, w.received, w.trimmed, w.opened)
}

func (w *watcher) check(e journal.Entry) {
	if e.Event.Op == event.Gap {
		w.trimmed += e.Event.Gap.Trimmed
		return
	}
	note(w.state, e.Event)
	if e.Seq == 0 && e.Event.Op == event.Snapshot && w.late && w.at == 0 {
		w.alive[e.Event.Name] = e.Event.UID
		return
	}
	if e.Seq <= w.at {
		if !w.again {
			w.t.Errorf("%s: sequence %d follows %d", w.name, e.Seq, w.at)
		}
		return
	}
	w.at = e.Seq
	if w.again && e.Event.Op.Ends() && w.ordinals[e.Event.UID] == e.Event.Ordinal {
		return // who begins anew while it is behind may get a deletion twice
	}
	w.received++
	if alive := w.alive[e.Event.Name]; alive != "" && alive != e.Event.UID {
		w.t.Errorf("%s: at %d %s follows %s without a deletion", w.name, e.Seq, e.Event.UID, alive)
	}
	w.alive[e.Event.Name] = e.Event.UID
	if e.Event.Op.Ends() {
		w.alive[e.Event.Name] = ""
		w.deletions++
	}
	w.missing += e.Event.Ordinal - w.ordinals[e.Event.UID] - 1
	if w.missing > w.trimmed && !w.late {
		w.t.Errorf("%s: at %d %d are missing and %d were declared", w.name, e.Seq, w.missing, w.trimmed)
	}
	if before := w.ordinals[e.Event.UID]; e.Event.Ordinal <= before {
		w.t.Errorf("%s: ordinal %d of %s follows %d", w.name, e.Event.Ordinal, e.Event.UID, before)
	}
	w.ordinals[e.Event.UID] = e.Event.Ordinal
}
