package deliver_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/sink"
)

// TestInsert: a sink that waits for its journal, and one that is busy, deliver
// what is inserted, each once.
func TestInsert(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j := newJournal(t)
		s := &fakeSink{}
		g := start(t, j, s, lanes)
		for i := range 20 {
			mustAppend(t, j, events(i*10, i%3))
			e := events(1000+i, 1)[0]
			if accepted, err := g.Insert(t.Context(), e); err != nil || !accepted {
				t.Fatalf("Insert: %v, %v", accepted, err)
			}
			if !slices.Contains(s.ids(), e.ID) {
				t.Fatalf("%s is not there when Insert returns", e.ID)
			}
		}
		g.drain(t, time.Minute)
		got := s.ids()
		slices.Sort(got)
		if len(got) != 20+19 || len(slices.Compact(got)) != 20+19 {
			t.Errorf("%d deliveries, want 39, each once", len(got))
		}
		if _, err := g.Insert(t.Context(), events(0, 1)[0]); err == nil {
			t.Error("a sink that has ended takes an event")
		}
	})
}

// TestRedelivery: a dead letter that the route filters out stays, as it is the only copy of its event. One that is
// refused again is a new one.
func TestRedelivery(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		s := inTurn(answer{1, nil}, answer{0, sink.Permanent(errors.New("no"))})
		g := start(t, newJournal(t), s, func(o *deliver.Options) {
			lanes(o)
			o.Route = route(t, true, deliver.Match{Resource: "secrets"})
		})
		list := events(0, 4)
		list[1].Resource, list[3].Resource = "secrets", "secrets"
		for _, e := range list {
			writeLetter(t, g.letters, e, "because")
		}
		n, err := g.Redeliver(t.Context(), []uint64{1, 2, 3, 4})
		if want := (deliver.Redelivered{Accepted: 1, Refused: 1, Filtered: 2}); n != want || err != nil {
			t.Errorf("redelivered %+v, %v, want %+v", n, err, want)
		}
		if got := len(s.ids()); got != 1 {
			t.Errorf("%d deliveries, want 1", got)
		}
		var left []uint64
		must(t, g.letters.Each(t.Context(), func(k deliver.Kept) error { left = append(left, k.Number); return nil }))
		if want := []uint64{1, 3, 5}; !slices.Equal(left, want) {
			t.Errorf("dead letters %v are left, want %v", left, want)
		}
		g.drain(t, time.Minute)
	})
}

// TestInsertOfWhatTheJournalBrings: an inserted event waits behind one of the journal with the
// same id. The destination gets both, and the caller of Insert waits for the inserted one.
func TestInsertOfWhatTheJournalBrings(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j, release := newJournal(t), make(chan struct{})
		s := &fakeSink{write: func(context.Context, []event.Event) (int, error) {
			<-release
			return 1, nil
		}}
		g := start(t, j, s, lanes)
		same := events(0, 1)[0]
		mustAppend(t, j, []event.Event{same, control()})
		synctest.Wait()
		inserted := g.insert(t.Context(), same)
		synctest.Wait()
		release <- struct{}{} // the event of the journal
		synctest.Wait()
		release <- struct{}{} // the control event
		synctest.Wait()
		if len(inserted) > 0 {
			t.Error("Insert returned before the destination had the inserted event")
		}
		close(release)
		must(t, <-inserted)
		g.drain(t, time.Minute)
		if got, want := s.ids(), []string{same.ID, control().ID, same.ID}; !slices.Equal(got, want) {
			t.Errorf("delivered %q, want %q", got, want)
		}
	})
}

// TestInsertBesideWhatTheJournalBrings: another inserted event, which is on its way meanwhile,
// comes once.
func TestInsertBesideWhatTheJournalBrings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		list := append(events(0, 2), control())
		release := make(map[string]chan struct{})
		for i := range list {
			release[list[i].ID] = make(chan struct{})
		}
		s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
			<-release[batch[0].ID]
			return 1, nil
		}}
		g := start(t, j, s, func(o *deliver.Options) { o.Lanes = 64 }) // two objects seldom share one
		other, same := list[0], list[1]
		first := g.insert(t.Context(), other)
		synctest.Wait()
		mustAppend(t, j, []event.Event{same, control()}) // the control event waits, and what follows
		synctest.Wait()
		second := g.insert(t.Context(), same)
		synctest.Wait()
		close(release[same.ID])
		synctest.Wait()
		close(release[other.ID])
		close(release[control().ID])
		must(t, errors.Join(<-first, <-second))
		g.drain(t, time.Minute)
		got := s.ids()
		slices.Sort(got)
		if want := []string{other.ID, same.ID, same.ID, control().ID}; !slices.Equal(got, want) {
			t.Errorf("delivered %q, want %q", got, want)
		}
	})
}

// control is a control event.
func control() event.Event {
	return event.Event{ID: "synced", Op: event.Synced, Cluster: "test", Target: "core/pods"}
}

// insert has an event delivered. The channel has what came of it.
func (g *rig) insert(ctx context.Context, e event.Event) <-chan error {
	inserted := make(chan error, 1)
	go func() {
		accepted, err := g.Insert(ctx, e)
		if err == nil && !accepted {
			err = errors.New("not accepted")
		}
		inserted <- err
	}()
	return inserted
}

// TestInsertThatIsGivenUp: an event that is not on its way is not delivered any more.
func TestInsertThatIsGivenUp(t *testing.T) {
	writing, hung := make(chan struct{}, 1), make(chan struct{})
	s := &fakeSink{write: func(ctx context.Context, batch []event.Event) (int, error) {
		writing <- struct{}{}
		select {
		case <-hung:
			return len(batch), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}}
	g := start(t, newJournal(t), s, func(*deliver.Options) {})
	under := g.insert(t.Context(), events(0, 1)[0])
	<-writing
	ctx, cancel := context.WithCancel(t.Context())
	given := g.insert(ctx, events(1, 1)[0])
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("Insert: %v", err)
	}
	close(hung)
	must(t, <-under)
	g.drain(t, time.Minute)
	if ids := s.ids(); len(ids) != 1 || ids[0] != events(0, 1)[0].ID {
		t.Errorf("delivered %q, want the first event", ids)
	}
}

// rewindable is a journal that tells when its cursor is moved, and that seven events follow.
func rewindable(j opener) (altered, <-chan time.Time) {
	calls := make(chan time.Time, 1)
	return altered{opener: j, rewind: func(since time.Time) (uint64, error) { calls <- since; return 7, nil }}, calls
}

// TestRewindWaitsForCommits: a commit of before would undo the rewind.
func TestRewindWaitsForCommits(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j, calls := rewindable(newJournal(t))
		held := make(chan struct{})
		j.commit = func(uint64) { <-held }
		g := start(t, j, &fakeSink{}, lanes)
		mustAppend(t, j, events(0, 1))
		synctest.Wait() // for the commit
		result := make(chan error, 1)
		go func() {
			_, err := g.Rewind(t.Context(), time.Unix(1, 0))
			result <- err
		}()
		synctest.Wait()
		if len(calls) > 0 {
			t.Error("the cursor is moved back while a commit is under way")
		}
		close(held)
		must(t, <-result)
		g.drain(t, time.Minute)
	})
}

// TestRewind: also a sink that fails, hangs or cannot be opened goes back within seconds; what it had not
// taken comes once it works.
func TestRewind(t *testing.T) {
	down := errors.New("down")
	for name, fail := range map[string]func(ctx context.Context) error{
		"works": func(context.Context) error { return nil },
		"fails": func(context.Context) error { return down },
		"hangs": func(ctx context.Context) error { return wait(ctx, time.Minute) },
		"slow": func(context.Context) error { // it succeeds after the rewind has broken it off
			<-time.After(3500 * time.Millisecond)
			return nil
		},
		"shut": nil, // it cannot be opened
	} {
		for _, lanes := range []int{1, 4} {
			t.Run(name+strconv.Itoa(lanes), func(t *testing.T) {
				t.Parallel()
				j, calls := rewindable(newJournal(t))
				var works, writing atomic.Bool
				s := &fakeSink{write: func(ctx context.Context, batch []event.Event) (int, error) {
					writing.Store(true)
					if works.Load() {
						return len(batch), nil
					}
					if err := fail(ctx); err != nil {
						return 0, err
					}
					return len(batch), nil
				}}
				g := start(t, j, s, func(o *deliver.Options) {
					o.Lanes = lanes
					open := o.Open
					o.Open = func(ctx context.Context) (sink.Sink, error) {
						if fail == nil && !works.Load() {
							return nil, down
						}
						return open(ctx)
					}
				})
				mustAppend(t, j, events(0, 20))
				waitFor(t, "it is in use", func() bool { return writing.Load() || fail == nil && g.Status().LastError != "" })
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				n, err := g.Rewind(ctx, time.Unix(1, 0))
				if since := <-calls; n != 7 || err != nil || !since.Equal(time.Unix(1, 0)) {
					t.Fatalf("Rewind: %d, %v, at %v", n, err, since)
				}
				works.Store(true)
				if name == "hangs" { // a write that began before
					if _, err := g.Rewind(ctx, time.Unix(1, 0)); err != nil {
						t.Fatal(err)
					}
				}
				g.drain(t, time.Minute)
				got := s.ids()
				slices.SortFunc(got, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
				// With several lanes, what is behind an event that hangs may come twice.
				if !slices.Equal(slices.Compact(got), numbers(0, 20)) || lanes == 1 && len(s.ids()) != 20 {
					t.Errorf("delivered %v, want 20 events", s.ids())
				}
			})
		}
	}
}

// TestRefusedRewindCancelsNothing: a write in progress continues when the journal refuses a rewind.
// Otherwise the destination gets its events twice, and a first snapshot starts from its beginning.
func TestRefusedRewindCancelsNothing(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j, release := realJournal{emptyJournal(t)}, make(chan struct{})
		mustAppend(t, j, events(0, 1)) // so that the sink has a first snapshot
		var writes atomic.Int32
		s := &fakeSink{write: func(ctx context.Context, batch []event.Event) (int, error) {
			writes.Add(1)
			select {
			case <-release:
				return len(batch), nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}}
		g := start(t, j, s, lanes)
		synctest.Wait()
		begun := time.Now()
		if _, err := g.Rewind(t.Context(), time.Unix(1, 0)); !errors.Is(err, journal.ErrFirstSnapshot) {
			t.Errorf("Rewind: %v, want ErrFirstSnapshot", err)
		}
		if took := time.Since(begun); took > 0 || writes.Load() != 1 || s.timesClosed() != 0 {
			t.Errorf("after %v: %d writes, closed %d times; want one write, at once", took, writes.Load(), s.timesClosed())
		}
		close(release)
		g.drain(t, time.Minute)
	})
}

// TestLettersCanBeReadAndDropped: what was kept comes back as it was, and what is
// dropped leaves the others.
func TestLettersCanBeReadAndDropped(t *testing.T) {
	d := deliver.NewDeadLetters("hook", emptyJournal(t).DeadLetters("hook"))
	list := events(0, 3)
	for _, e := range list {
		writeLetter(t, d, e, "because")
	}
	read := func() (all []deliver.Kept) {
		must(t, d.Each(t.Context(), func(k deliver.Kept) error { all = append(all, k); return nil }))
		return all
	}
	all := read()
	if len(all) != 3 || !strings.Contains(string(all[1].JSON), `"reason":"because"`) || all[1].Event == nil || all[1].Event.ID != list[1].ID || string(all[1].Event.Data) != string(list[1].Data) {
		t.Fatalf("letters %+v", all)
	}
	must(t, d.Drop(t.Context(), all[1].Number, 99))
	if left := read(); len(left) != 2 || left[0].Event.ID != list[0].ID || left[1].Event.ID != list[2].ID {
		t.Errorf("left: %+v", left)
	}
	var none event.Event
	must(t, d.Write(t.Context(), deliver.Letter{Event: &none}))
}
