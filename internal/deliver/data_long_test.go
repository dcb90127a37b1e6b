//go:build long

package deliver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// telling is an event of whose data every byte follows from its id.
func telling(i int) event.Event {
	e := events(i, 1)[0]
	e.Data = tellingData(e.ID)
	return e
}

func tellingData(id string) []byte {
	times := 1 + len(id)*100
	if strings.HasSuffix(id, "77") {
		times = 100_000 / len(id) // too large for the blocks of the journal
	}
	return fmt.Appendf(nil, `{"object":{"id":%q}}`, strings.Repeat(id, times))
}

// moody is a sink that does everything that a sink may do, and looks at what it is given
// before it, after it and while it waits.
type moody struct {
	t *testing.T

	mu   sync.Mutex
	rand *rand.Rand
	done map[string]bool // what it has taken
	// refused: it has refused an event for good, as it does at least once.
	refused bool
}

func (s *moody) write(ctx context.Context, batch []event.Event) (taken int, err error) {
	s.look(batch)
	defer func() {
		s.look(batch)
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range batch[:taken] {
			s.done[batch[i].ID] = true
		}
	}()
	s.mu.Lock()
	mood, n := s.rand.IntN(20), s.rand.IntN(len(batch))
	pause := time.Duration(s.rand.IntN(50)) * time.Millisecond
	s.mu.Unlock()
	if err := wait(ctx, pause); err != nil {
		return 0, err
	}
	s.mu.Lock()
	if !s.refused {
		mood, s.refused = 1, true
	}
	s.mu.Unlock()
	switch mood {
	case 0:
		return n, errors.New("not now")
	case 1:
		return n, sink.Permanent(errors.New("never"))
	case 2:
		panic("in a bad mood")
	case 3:
		if err := wait(ctx, 5*time.Second); err != nil { // longer than a replaced sink may take
			return n, err
		}
	}
	return len(batch), nil
}

func (s *moody) look(batch []event.Event) {
	for i := range batch {
		if want := tellingData(batch[i].ID); !bytes.Equal(batch[i].Data, want) {
			s.t.Errorf("the data of event %s is %.60q, want %.60q", batch[i].ID, batch[i].Data, want)
		}
	}
}

// TestDataStaysWhileItIsWritten delivers to sinks that fail in every way, wait, and are
// replaced, from a journal that uses the memory of committed events again: what they see of an event is
// always that of the event, and so is what goes to the dead letters.
func TestDataStaysWhileItIsWritten(t *testing.T) {
	for _, lanes := range []int{1, 4} {
		t.Run(fmt.Sprint(lanes, " lanes"), func(t *testing.T) {
			seed := rand.Uint64()
			t.Log("seed", seed)
			synctest.Test(t, func(t *testing.T) { deliverTelling(t, lanes, seed) })
		})
	}
}

func deliverTelling(t *testing.T, lanes int, seed uint64) {
	const n = 2000
	j := newJournal(t)
	var rigs []*rig
	var sinks []*moody
	for i, name := range []string{"a", "b"} {
		m := &moody{t: t, rand: rand.New(rand.NewPCG(seed, uint64(i))), done: map[string]bool{}}
		sinks = append(sinks, m)
		rigs = append(rigs, start(t, j, &fakeSink{write: m.write}, func(o *deliver.Options) { o.Name, o.Lanes = name, lanes }))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		own := []event.Event{{}}
		for i := range n {
			own[0] = telling(i)
			mustAppend(t, j, own)
			clear(own[0].Data) // it is the caller's again
			if wait(t.Context(), 10*time.Millisecond) != nil {
				return
			}
		}
	})
	for range 20 {
		must(t, wait(t.Context(), time.Second))
		next := setup(t, &fakeSink{write: sinks[0].write})
		next.Lanes = lanes
		mustReplace(t, rigs[0], next)
	}
	wg.Wait()
	for i, g := range rigs {
		g.drain(t, time.Hour)
		letters := 0
		err := g.letters.Each(t.Context(), func(k deliver.Kept) error {
			letters++
			sinks[i].look([]event.Event{*k.Event})
			sinks[i].done[k.Event.ID] = true
			return nil
		})
		if err != nil || letters == 0 {
			t.Errorf("%d dead letters: %v", letters, err)
		}
		if got := len(sinks[i].done); got != n {
			t.Errorf("%d events came, want %d", got, n)
		}
	}
}
