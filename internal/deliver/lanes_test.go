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

// durable is a journal of one cursor whose committed position survives: what a
// JetStream journal is for deliver. Its sequences have holes.
type durable struct {
	journal.Stateless

	empty    opener
	entries  []journal.Entry
	onCommit func(seq uint64)

	mu        sync.Mutex
	committed uint64
}

func (d *durable) Append(context.Context, []event.Event) error { return errors.New("not in this test") }
func (d *durable) Close() error                                { return nil }
func (d *durable) Stats() journal.Stats {
	return journal.Stats{LastSeq: d.entries[len(d.entries)-1].Seq}
}

func (d *durable) Open(name string, start journal.Start) (deliver.Cursor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	none, err := d.empty.Open(name, start)
	return &durableCursor{Cursor: none, journal: d, next: d.committed + 1}, err
}

type durableCursor struct {
	deliver.Cursor // of an empty journal

	journal *durable
	next    uint64
}

func (c *durableCursor) Read(ctx context.Context, limit int) (entries []journal.Entry, err error) {
	for _, e := range c.journal.entries {
		if e.Seq >= c.next && len(entries) < limit {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.next = entries[len(entries)-1].Seq + 1
	return entries, nil
}

func (c *durableCursor) Reset(context.Context) error {
	c.journal.mu.Lock()
	defer c.journal.mu.Unlock()
	c.next = c.journal.committed + 1
	return nil
}

func (c *durableCursor) Commit(seq uint64) error {
	c.journal.onCommit(seq)
	c.journal.mu.Lock()
	defer c.journal.mu.Unlock()
	c.journal.committed = max(c.journal.committed, seq)
	return nil
}

func (c *durableCursor) Lag() (lag journal.Lag) {
	c.journal.mu.Lock()
	defer c.journal.mu.Unlock()
	for _, e := range c.journal.entries {
		if e.Seq > c.journal.committed {
			lag.Events++
		}
	}
	return lag
}

func (c *durableCursor) Close() error { return c.Cursor.Close() }

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

// sink makes a destination that is slow, and fails in every way it may.
func (w *witness) sink(r *rand.Rand) *fakeSink {
	var mu sync.Mutex
	random := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	return &fakeSink{write: func(ctx context.Context, batch []event.Event) (int, error) {
		if err := wait(ctx, time.Duration(random(50))*time.Millisecond); err != nil {
			return 0, err
		}
		n, err := len(batch), error(nil)
		switch random(10) {
		case 0:
			n, err = random(len(batch)), errDown
		case 1:
			n, err = random(len(batch)), sink.WithRetryAfter(errDown, time.Second)
		case 2:
			n, err = random(len(batch)), sink.Permanent(errors.New("bad"))
		case 3:
			panic("oh")
		}
		for i := range batch[:n] {
			w.arrive(&batch[i])
		}
		return n, err
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
		g := newRig(t, j, w.sink(rand.New(rand.NewPCG(r.Uint64(), 0))), change)
		ctx, cancel := context.WithCancel(t.Context())
		g.run(ctx)
		if life == 5 {
			g.drain(t, time.Hour)
			cancel()
			break
		}
		<-time.After(time.Duration(r.IntN(1000)) * time.Millisecond)
		cancel()
		must(t, <-g.result)
	}
	w.complete("the end", j.Stats().LastSeq)
	if j.committed != j.Stats().LastSeq {
		t.Errorf("committed %d of %d", j.committed, j.Stats().LastSeq)
	}
}

// randomJournal makes a log of events about a few objects, some of which the
// route leaves out, with control records in between.
func randomJournal(t *testing.T, r *rand.Rand, admits *deliver.Route) (*durable, *witness) {
	w := &witness{t: t, entries: map[string]journal.Entry{}, arrived: map[string]bool{}}
	w.letters = deliver.NewDeadLetters("out", emptyJournal(t).DeadLetters("out"))
	j := &durable{empty: newJournal(t)}
	j.onCommit = func(seq uint64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.complete("commit", seq)
	}
	seq := uint64(0)
	for i := range 600 {
		seq += 1 + uint64(r.IntN(3))
		e := events(r.IntN(40), 1)[0]
		e.ID, e.Name = strconv.Itoa(i), e.ID
		switch r.IntN(40) {
		case 0:
			e = event.Event{ID: e.ID, Op: event.Synced, Target: "core/pods", Resource: "pods"}
		case 1, 2, 3, 4:
			e.Namespace = "elsewhere"
		}
		entry := journal.Entry{Seq: seq, Event: e}
		j.entries = append(j.entries, entry)
		if admits.Admits(&e) {
			w.entries[e.ID] = entry
		}
	}
	return j, w
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
