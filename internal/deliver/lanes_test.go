package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/sink"
)

// witness is a destination that watches the promises. It is one per journal,
// over all lives of the runner.
type witness struct {
	t       *testing.T
	entries map[string]journal.Entry // by id; only what the route admits

	mu       sync.Mutex
	arrived  map[string]bool   // every id that ever came, here or in the dead letters
	previous map[string]uint64 // per object, the last sequence of this life
	control  uint64            // the last control record of this life
	letters  *deliver.DeadLetters
}

// arrive notes one event that the destination takes.
func (w *witness) arrive(e *event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	entry, ok := w.entries[e.ID]
	if !ok {
		w.t.Errorf("event %s is not for this sink", e.ID)
	}
	if last := w.previous[e.Key()]; entry.Seq <= last {
		w.t.Errorf("object %s: sequence %d after %d", e.Key(), entry.Seq, last)
	}
	w.previous[e.Key()] = entry.Seq
	if entry.Seq < w.control {
		w.t.Errorf("sequence %d came after the control record %d", entry.Seq, w.control)
	}
	if e.Op.Control() {
		w.control = entry.Seq
		w.complete("the control record", entry.Seq-1)
	}
	w.arrived[e.ID] = true
}

// complete checks, with the lock held, that all up to seq has arrived.
func (w *witness) complete(what string, seq uint64) {
	missing := func(id string) bool { return w.entries[id].Seq <= seq && !w.arrived[id] }
	if slices.ContainsFunc(slices.Collect(maps.Keys(w.entries)), missing) {
		for _, id := range letterIDs(readLetters(w.t, w.letters)) {
			w.arrived[id] = true
		}
	}
	for id, entry := range w.entries {
		if entry.Seq <= seq && !w.arrived[id] {
			w.t.Errorf("%s at %d, but event %s (sequence %d) has not arrived", what, seq, id, entry.Seq)
		}
	}
}

// moody is a sink that is slow, and does everything that a sink may do. Look sees each batch before and after it is
// written, take each event that the sink accepts.
func moody(r *rand.Rand, look func([]event.Event), take func(*event.Event)) *fakeSink {
	var mu sync.Mutex
	random := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	return &fakeSink{write: func(ctx context.Context, batch []event.Event) (taken int, err error) {
		look(batch)
		defer func() {
			look(batch)
			for i := range batch[:taken] {
				take(&batch[i])
			}
		}()
		if err := wait(ctx, time.Duration(random(50))*time.Millisecond); err != nil {
			return 0, err
		}
		n := random(len(batch))
		switch random(16) {
		case 0:
			return n, errDown
		case 1:
			return n, sink.WithRetryAfter(errDown, time.Second)
		case 2:
			return n, sink.Permanent(errors.New("bad"))
		case 3:
			panic("oh")
		case 4:
			if err := wait(ctx, 5*time.Second); err != nil { // longer than a replaced sink may take
				return n, err
			}
		}
		return len(batch), nil
	}}
}

// TestLanesKeepThePromises runs a sink that fails in every way, ends the runner
// at random moments and starts another on what was committed. The witness
// checks order, barriers, and that nothing was committed that has not arrived.
func TestLanesKeepThePromises(t *testing.T) {
	for _, lanes := range []int{1, 2, 8} {
		for range 5 {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("lanes=%d,seed=%d", lanes, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { liveAndDie(t, lanes, rand.New(rand.NewPCG(seed, 0))) })
			})
		}
	}
}

func liveAndDie(t *testing.T, lanes int, r *rand.Rand) {
	admits := route(t, true, deliver.Match{Namespaces: []string{"default"}})
	j, w := randomJournal(t, r, admits)
	change := func(o *deliver.Options) { o.Lanes, o.Route, o.DeadLetters = lanes, admits, w.letters }
	for life := 0; ; life++ {
		w.previous, w.control = map[string]uint64{}, 0
		s := moody(rand.New(rand.NewPCG(r.Uint64(), 0)), func([]event.Event) {}, w.arrive)
		g := newRig(t, j, s, change)
		ctx, cancel := context.WithCancel(t.Context())
		g.run(ctx)
		if life == 5 {
			if left := g.drain(t, time.Hour); left != 0 {
				t.Errorf("%d events are not committed", left)
			}
			cancel()
			break
		}
		<-time.After(time.Duration(r.IntN(1000)) * time.Millisecond)
		cancel()
		must(t, <-g.result)
	}
	w.complete("the end", j.Stats().LastSeq)
}

// randomJournal makes a log of events about a few objects, some of which the
// route leaves out, with control records in between. Its sequences have holes.
func randomJournal(t *testing.T, r *rand.Rand, admits *deliver.Route) (altered, *witness) {
	w := &witness{t: t, entries: map[string]journal.Entry{}, arrived: map[string]bool{}}
	w.letters = deliver.NewDeadLetters("out", emptyJournal(t).DeadLetters("out"))
	const last = 1200
	holes := make(map[uint64]bool)
	var list []event.Event
	for seq := uint64(1); seq <= last; seq++ {
		e := events(r.IntN(40), 1)[0]
		e.ID, e.Name, e.UID, e.ResourceVersion = strconv.FormatUint(seq, 10), e.ID, e.ID, seq
		switch r.IntN(40) {
		case 0:
			e = control()
			e.ID, e.Resource = strconv.FormatUint(seq, 10), "pods"
		case 1, 2, 3, 4:
			e.Namespace = "elsewhere"
		}
		list = append(list, e)
		if holes[seq] = r.IntN(2) == 0 && seq < last; !holes[seq] && admits.Admits(&e) {
			w.entries[e.ID] = journal.Entry{Seq: seq, Event: e}
		}
	}
	j := newJournal(t)
	mustAppend(t, j, list)
	return altered{
		opener: j,
		read: func(entries []journal.Entry) []journal.Entry {
			return slices.DeleteFunc(entries, func(e journal.Entry) bool { return holes[e.Seq] })
		},
		commit: func(seq uint64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.complete("commit", seq)
		},
	}, w
}

// TestLanesAreParallel: one object that cannot be delivered delays the others
// only when the window is full, and then holds the commit.
func TestLanesAreParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		stuck := events(0, 1)[0]
		s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
			for i := range batch {
				if batch[i].Key() == stuck.Key() {
					return i, errDown
				}
			}
			return len(batch), nil
		}}
		g := start(t, j, s, func(o *deliver.Options) { o.Lanes = 4 })
		go func() {
			if err := j.Append(t.Context(), events(0, 20_000)); err != nil {
				t.Errorf("Append: %v", err)
			}
		}()
		<-time.After(time.Hour)
		status := g.Status()
		if status.State != deliver.Retrying || status.Delivered < 1000 || status.Delivered > 4096 || status.LagEvents != 20_000 {
			t.Errorf("status = %+v, want the other lanes' part of a window delivered, and nothing committed", status)
		}
		g.drain(t, time.Second)
	})
}

// TestWindowIsBoundedByBytes: what is under way does not grow with the size of
// the events.
func TestWindowIsBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		list := events(0, 100)
		for i := range list {
			list[i].Data = make([]byte, 1<<20)
		}
		first := list[0].Key()
		s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
			if batch[0].Key() == first {
				return 0, errDown
			}
			return len(batch), nil
		}}
		g := start(t, j, s, func(o *deliver.Options) { o.Lanes = 16 })
		mustAppend(t, j, list)
		<-time.After(time.Minute)
		if got := len(s.ids()); got == 0 || got > 8 {
			t.Errorf("%d events of 1 MiB passed the one that is stuck", got)
		}
		g.drain(t, time.Second)
	})
}
