package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// model is the memory journal in the simplest words: everything that was ever
// appended is kept, and what the real one holds is worked out from scratch.
type model struct {
	capacity uint64
	log      []event.Event
	first    int // index of the oldest event held
	cursors  map[string]*modelCursor
	pending  []*modelAppend
}

type modelCursor struct {
	real            journal.Cursor
	committed, next int // numbers of events
	// held are the events that were read, of the same number each as in the log; those
	// up to committed are none.
	held map[int]event.Event
}

type modelAppend struct {
	events []event.Event
	cancel context.CancelFunc
	result chan error
}

func (m *model) bytes() (sum uint64) {
	for i := m.first; i < len(m.log); i++ {
		sum += uint64(m.log[i].Size())
	}
	return sum
}

// settle drops what all cursors have committed and lets the pending appends
// proceed, first come first. It returns those that are done.
func (m *model) settle() (done []*modelAppend) {
	if len(m.cursors) > 0 {
		m.first = len(m.log)
		for _, c := range m.cursors {
			m.first = min(m.first, c.committed)
		}
	}
	for len(m.pending) > 0 {
		head := m.pending[0]
		for len(head.events) > 0 {
			if m.first < len(m.log) && m.bytes()+uint64(head.events[0].Size()) > m.capacity {
				return done
			}
			m.log = append(m.log, head.events[0])
			head.events = head.events[1:]
		}
		done = append(done, head)
		m.pending = m.pending[1:]
	}
	return done
}

// TestMemoryAgainstModel does random operations on a journal and on the model,
// and compares after each: what is held, who is blocked, what every cursor
// reads, what that carries until it is committed, and how far the cursor lags.
func TestMemoryAgainstModel(t *testing.T) {
	for range 60 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func runModel(t *testing.T, r *rand.Rand) {
	capacity := uint64(r.IntN(20_000))
	blockSize := 1000 + r.IntN(7_000)
	j := journal.NewMemoryOf(capacity, blockSize)
	m := &model{capacity: capacity, cursors: map[string]*modelCursor{}}
	for range 400 {
		step(t, r, j, m)
		synctest.Wait()
		compare(t, j, m)
		if got, most := journal.ArenaBytes(j), int(capacity)*4/3+2*blockSize; got > most {
			t.Errorf("the journal keeps %d bytes for %d, in blocks of %d, want at most %d", got, capacity, blockSize, most)
		}
		if t.Failed() {
			return
		}
	}
	if err := j.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for _, p := range m.pending {
		if err := <-p.result; !errors.Is(err, journal.ErrClosed) {
			t.Errorf("blocked Append after Close = %v", err)
		}
		p.cancel()
	}
}

// step does one random operation on both.
func step(t *testing.T, r *rand.Rand, j *journal.Memory, m *model) {
	name := string(rune('a' + r.IntN(4)))
	c := m.cursors[name]
	switch op := r.IntN(10); {
	case op < 4:
		stepAppend(t, r, j, m)
	case op == 4 && len(m.pending) > 0:
		i := r.IntN(len(m.pending))
		p := m.pending[i]
		m.pending = append(m.pending[:i:i], m.pending[i+1:]...)
		p.cancel()
		if err := <-p.result; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled Append = %v", err)
		}
		finish(t, m)
	case c == nil:
		m.cursors[name] = &modelCursor{real: open(t, j, name), committed: m.first, next: m.first, held: map[int]event.Event{}}
	case op == 5 && r.IntN(4) == 0:
		if err := c.real.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		delete(m.cursors, name)
		finish(t, m)
	case op < 8 && c.next < len(m.log):
		stepRead(t, r, m, c)
	case len(m.log) > 0:
		// Mostly what was read, sometimes below the floor or beyond what was read.
		seq := r.IntN(c.next + 1)
		if r.IntN(10) == 0 {
			seq = r.IntN(len(m.log) + 1)
		}
		commit(t, c.real, uint64(seq))
		c.committed = max(c.committed, seq)
		c.next = max(c.next, seq)
		for i := range c.held {
			if i < c.committed {
				delete(c.held, i)
			}
		}
		finish(t, m)
	}
}

func stepAppend(t *testing.T, r *rand.Rand, j *journal.Memory, m *model) {
	events := make([]event.Event, r.IntN(6))
	for i := range events {
		size := r.IntN(1 + 3000>>r.IntN(5)) // some have a place in a block, some are too large
		if r.IntN(30) == 0 {
			size = 30_000 // more than any capacity
		}
		events[i] = event.Event{ID: fmt.Sprint(r.Uint32()), Data: randomBytes(r, size)}
	}
	ctx, cancel := context.WithCancel(t.Context())
	p := &modelAppend{events: events, cancel: cancel, result: make(chan error, 1)}
	own := slices.Clone(events)
	for i := range own {
		own[i].Data = bytes.Clone(own[i].Data)
	}
	go func() {
		err := j.Append(ctx, own)
		for i := range own {
			clear(own[i].Data) // they are the caller's again
		}
		p.result <- err
	}()
	synctest.Wait()
	if len(events) > 0 { // nothing to append never waits
		m.pending = append(m.pending, p)
	}
	finish(t, m)
}

// finish lets the model proceed; each append that the model calls done must
// have returned, which <-p.result proves: synctest would report a deadlock.
func finish(t *testing.T, m *model) {
	for _, p := range m.settle() {
		if err := <-p.result; err != nil {
			t.Errorf("Append: %v", err)
		}
		p.cancel()
	}
}

func stepRead(t *testing.T, r *rand.Rand, m *model, c *modelCursor) {
	limit := 1 + r.IntN(8)
	entries, err := c.real.Read(t.Context(), limit)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	want := m.log[c.next:min(c.next+limit, len(m.log))]
	if len(entries) != len(want) {
		t.Fatalf("Read(%d) returned %d entries, want %d", limit, len(entries), len(want))
	}
	for i, e := range entries {
		if e.Seq != uint64(c.next+i+1) {
			t.Errorf("entry %d has sequence %d, want %d", i, e.Seq, c.next+i+1)
		}
		if e.Event.ID != want[i].ID {
			t.Errorf("sequence %d is event %s, want %s", e.Seq, e.Event.ID, want[i].ID)
		}
		c.held[c.next+i] = e.Event
	}
	c.next += len(want)
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func compare(t *testing.T, j *journal.Memory, m *model) {
	want := journal.Stats{
		Events:   uint64(len(m.log) - m.first),
		Bytes:    m.bytes(),
		Capacity: m.capacity,
		LastSeq:  uint64(len(m.log)),
		Blocked:  len(m.pending),
	}
	if diff := cmp.Diff(want, j.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	for name, c := range m.cursors {
		for i, e := range c.held {
			if !bytes.Equal(e.Data, m.log[i].Data) {
				t.Errorf("what sequence %d carries is not what was appended, though %s has not committed it", i+1, name)
			}
		}
		if got := c.real.Lag().Events; got != uint64(len(m.log)-c.committed) {
			t.Errorf("lag of %s = %d, want %d", name, got, len(m.log)-c.committed)
		}
	}
	for _, p := range m.pending {
		select {
		case err := <-p.result:
			t.Errorf("an Append returned (%v) that had to block", err)
		default:
		}
	}
}
