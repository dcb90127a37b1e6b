//go:build long

package deliver_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
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

// listener has the ids of what a sink has accepted, and compares the data of what it is given.
type listener struct {
	t    *testing.T
	mu   sync.Mutex
	done map[string]bool
}

func (l *listener) look(batch []event.Event) {
	for i := range batch {
		if want := tellingData(batch[i].ID); !bytes.Equal(batch[i].Data, want) {
			l.t.Errorf("the data of event %s is %.60q, want %.60q", batch[i].ID, batch[i].Data, want)
		}
	}
}

func (l *listener) take(e *event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[e.ID] = true
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
	var sinks []*fakeSink
	var listeners []*listener
	for i, name := range []string{"a", "b"} {
		l := &listener{t: t, done: map[string]bool{}}
		s := moody(rand.New(rand.NewPCG(seed, uint64(i))), l.look, l.take)
		listeners, sinks = append(listeners, l), append(sinks, s)
		rigs = append(rigs, start(t, j, s, func(o *deliver.Options) { o.Name, o.Lanes = name, lanes }))
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
		next := setup(t, sinks[0])
		next.Lanes = lanes
		mustReplace(t, rigs[0], next)
	}
	wg.Wait()
	for i, g := range rigs {
		g.drain(t, time.Hour)
		letters := 0
		err := g.letters.Each(t.Context(), func(k deliver.Kept) error {
			letters++
			listeners[i].look([]event.Event{*k.Event})
			listeners[i].take(k.Event)
			return nil
		})
		if err != nil || letters == 0 {
			t.Errorf("%d dead letters: %v", letters, err)
		}
		if got := len(listeners[i].done); got != n {
			t.Errorf("%d events came, want %d", got, n)
		}
	}
}
