package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// await asks for so short a time that nothing can have room that has not now. That time begins
// when Await checks the cursors, so that it does so at least once.
func await(t *testing.T, j *jetstream.Journal, events ...event.Event) (n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	returned := make(chan struct{})
	var canceling sync.WaitGroup
	canceling.Go(func() {
		defer cancel()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for left := 50; left > 0; {
			select {
			case <-returned:
				return
			case <-tick.C:
				left -= j.Awaits() // 1 or 0
			}
		}
	})
	n, err := j.Await(ctx, events)
	close(returned)
	canceling.Wait()
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("Await: %v", err)
	}
	return n
}

// story is what happens to some objects, in turn.
func story(now *clock, names, revisions, size int) (events []event.Event) {
	objects := make([]*object, names)
	for i := range objects {
		objects[i] = &object{name: fmt.Sprint("o", i)}
	}
	for i := range revisions {
		for _, o := range objects {
			op := event.Modified
			if i == 0 {
				op = event.Added
			}
			e := o.event(now, op)
			e.Data = []byte(`{"object":"` + strings.Repeat("x", size) + `"}`)
			events = append(events, e)
		}
	}
	return events
}

// TestAwaitLosesNothing appends history as fast as Await lets it, to a reader that
// takes one event when nothing goes on any more, and what happens meanwhile as it
// comes. What is there is more than the newest events in memory.
func TestAwaitLosesNothing(t *testing.T) {
	for name, patient := range map[string]bool{"with Await": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			j := newHost(t).open(history(4))
			c := mustOpen(t, j, "bus", journal.FromNow)
			var now clock
			all := story(&now, 8, 6, 300<<10)
			var got []journal.Entry
			for rest := all; len(rest) > 0; {
				n := len(rest)
				if patient {
					until(t, "an event has room or is unread", func() bool { // a commit is durable a little later
						n = await(t, j, rest...)
						return n > 0 || len(got) < len(all)-len(rest)
					})
				}
				mustAppend(t, j, rest[:n]...)
				if rest = rest[n:]; n == 0 {
					got = append(got, read(t, c, 1)...)
					mustCommit(t, c, got[len(got)-1].Seq)
				}
			}
			for last := all[len(all)-1].ID; len(got) == 0 || got[len(got)-1].Event.ID != last; {
				got = append(got, read(t, c, 1)...)
			}
			missing := 0
			for _, e := range got {
				if e.Event.Op == event.Gap {
					missing += int(e.Event.Gap.Trimmed)
				}
			}
			if patient != (missing == 0) || patient && len(got) != len(all) {
				t.Errorf("%d of %d events were read, and %d are missing:\n%s", len(got), len(all), missing, show(got))
			}
		})
	}
}

// TestAwaitLeavesRoomForNow: of an object's places history takes half.
func TestAwaitLeavesRoomForNow(t *testing.T) {
	j := newHost(t).open(history(6))
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	past := []event.Event{a.event(&now, event.Added), b.event(&now, event.Added)}
	for range 4 {
		past = append(past, a.event(&now, event.Modified))
	}
	synced := event.Event{ID: "core/configmaps:5:synced", Op: event.Synced, Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps", ResourceVersion: 5}
	steps := []struct {
		what  string
		first int
		want  int
		do    func()
	}{
		{"empty", 0, 4, func() { mustAppend(t, j, past[:4]...) }},
		{"three of a", 4, 0, func() { mustCommit(t, c, 1) }},
		{"two of a", 4, 1, func() { mustAppend(t, j, past[4], synced) }},
		{"three of a again", 5, 0, func() { mustCommit(t, c, 6) }},
		{"nothing", 5, 1, func() {}},
	}
	for _, s := range steps {
		var got int
		until(t, s.what, func() bool { // a commit is durable a little later
			got = await(t, j, past[s.first:]...)
			return got == s.want || got != 0
		})
		if got != s.want {
			t.Errorf("%s: room for %d, want %d", s.what, got, s.want)
		}
		s.do()
	}
	if got := await(t, j, synced, synced, synced, synced, synced, synced, synced); got != 7 {
		t.Errorf("room for %d control records, want 7", got)
	}
}

// TestAwaitAfterRestart: how much of what was there before is unread is not known.
func TestAwaitAfterRestart(t *testing.T) {
	h := newHost(t)
	j := h.open()
	mustClose(t, mustOpen(t, j, "bus", journal.FromNow))
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added))
	mustClose(t, j)
	j = h.open()
	if _, err := j.Restore(t.Context(), "core/configmaps", func(event.Event) {}); err != nil {
		t.Fatal(err)
	}
	more := a.event(&now, event.Modified)
	if got := await(t, j, more); got != 1 {
		t.Errorf("room for %d without a sink, want 1", got)
	}
	c := mustOpen(t, j, "bus", journal.FromNow)
	if got := await(t, j, more); got != 0 {
		t.Errorf("room for %d before a sink has read the past, want 0", got)
	}
	mustCommit(t, c, 1)
	until(t, "room", func() bool { return await(t, j, more) == 1 })
}

// TestAwaitGivesUp on a sink that stands still, until it moves again, and when the
// time is over.
func TestAwaitGivesUp(t *testing.T) {
	j := newHost(t).open(history(2))
	j.SetStandstill(100 * time.Millisecond)
	dead, alive := mustOpen(t, j, "dead", journal.FromNow), mustOpen(t, j, "alive", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	appendNext := func(within time.Duration) error {
		t.Helper()
		e := a.event(&now, event.Modified)
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := j.Await(ctx, []event.Event{e})
		mustAppend(t, j, e)
		return err
	}
	overtaken := func(want uint64) {
		t.Helper()
		if got := j.Stats().Overtaken; got != want {
			t.Errorf("overtaken = %d, want %d", got, want)
		}
	}
	mustAppend(t, j, a.event(&now, event.Added))
	commitAlive := func(seq uint64) {
		t.Helper()
		mustCommit(t, alive, seq)
		until(t, "the commit is durable", func() bool { return jetstream.Durable(alive) == seq })
	}
	commitAlive(1) // else that sink is in the way, too
	began, next := time.Now(), a.event(&now, event.Modified)
	until(t, "a dead sink is not waited for", func() bool { // over several calls
		return await(t, j, next) == 1
	})
	mustAppend(t, j, next)
	if waited := time.Since(began); waited < 100*time.Millisecond {
		t.Errorf("waited %v for a sink that may be slow", waited)
	}
	overtaken(1)
	j.SetStandstill(time.Hour)
	commitAlive(2)
	if err := appendNext(patience); err != nil {
		t.Fatalf("Await with a sink that is known to be dead: %v", err)
	}
	overtaken(1)
	mustCommit(t, dead, 1)
	until(t, "the sink that lives again is waited for", func() bool {
		commitAlive(j.Stats().LastSeq) // so that no other sink is in the way
		err := appendNext(50 * time.Millisecond)
		return errors.Is(err, context.DeadlineExceeded) && j.Stats().Overtaken == 2
	})
}

// TestAwaitEnds with the caller's context, the journal and the fence.
func TestAwaitEnds(t *testing.T) {
	fenced := errors.New("not the leader")
	var refuse atomic.Bool
	j := newHost(t).open(history(1), func(c *jetstream.Config) {
		c.Fence = func() error {
			if refuse.Load() {
				return fenced
			}
			return nil
		}
	})
	mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	next := []event.Event{a.event(&now, event.Modified)}
	gone, cancel := context.WithCancel(t.Context())
	ends := []struct {
		end  func()
		want error
	}{
		{cancel, context.Canceled},
		{func() { refuse.Store(true) }, fenced},
		{func() { mustClose(t, j) }, journal.ErrClosed},
	}
	for _, e := range ends {
		ctx := t.Context()
		if errors.Is(e.want, context.Canceled) {
			ctx = gone
		}
		refuse.Store(false)
		done := make(chan error)
		go func() {
			_, err := j.Await(ctx, next)
			done <- err
		}()
		select {
		case err := <-done:
			t.Fatalf("Await = %v, want it to wait", err)
		case <-time.After(50 * time.Millisecond):
		}
		e.end()
		if err := <-done; !errors.Is(err, e.want) {
			t.Errorf("Await = %v, want %v", err, e.want)
		}
	}
	if diff := cmp.Diff(uint64(0), j.Stats().Overtaken); diff != "" {
		t.Errorf("overtaken (-want +got):\n%s", diff)
	}
}

// TestAwaitForgets asks about more objects than it keeps in mind.
func TestAwaitForgets(t *testing.T) {
	j := newHost(t).open(history(math.MaxInt32))
	var now clock
	a := &object{name: "a"}
	mustOpen(t, j, "bus", journal.FromNow)
	e := a.event(&now, event.Added)
	many := make([]event.Event, 1000)
	for round := range 200 {
		for i := range many {
			many[i] = e
			many[i].Name = fmt.Sprint(round, "-", i)
		}
		if got := await(t, j, many...); got != len(many) {
			t.Fatalf("room for %d of %d objects", got, len(many))
		}
	}
	if held, limit := j.Remembered(); held > limit {
		t.Errorf("%d sequences are remembered, want at most %d", held, limit)
	}
}
