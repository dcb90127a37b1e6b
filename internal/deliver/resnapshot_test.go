package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// patience is that of the operator's requests.
const patience = 15 * time.Second

// withObjects is a journal whose sink "out" has had a number of objects.
func withObjects(t *testing.T, n int) realJournal {
	t.Helper()
	j := newJournal(t)
	objects := make([]event.Event, n)
	for i := range objects {
		objects[i] = events(1, 1)[0]
		objects[i].ID, objects[i].Name, objects[i].UID = fmt.Sprint("object-", i), fmt.Sprint("object-", i), fmt.Sprint("object-", i)
	}
	mustAppend(t, j, objects)
	c, err := j.Journal.Open("out", journal.FromSnapshot)
	must(t, err)
	must(t, errors.Join(c.Commit(j.Stats().LastSeq), c.Close()))
	return j
}

// resnapshot makes a request. The channel has what came of it.
func (g *rig) resnapshot(ctx context.Context, run uint64, patience time.Duration) <-chan error {
	made := make(chan error, 1)
	go func() { _, err := g.Resnapshot(ctx, again(run), patience); made <- err }()
	return made
}

// pending are the runs of the requests that are not complete.
func (g *rig) pending() (runs []uint64) {
	for _, one := range g.Status().Resnapshots {
		runs = append(runs, one.Run)
	}
	return runs
}

// again is a request for the target of the events.
func again(run uint64) journal.Resnapshot {
	begin := event.Event{Cluster: "test", Target: "core/pods", Version: "v1", Resource: "pods", Kind: "Pod", Replay: true}
	end := begin
	begin.SetBound(event.Begin, run, 9)
	end.SetBound(event.Synced, run, 9)
	return journal.Resnapshot{Run: run, Begin: []event.Event{begin}, End: []event.Event{end}}
}

// ofRun returns how many objects of a run there are from its last beginning on, and
// whether its end stands behind them all.
func ofRun(s *fakeSink, run uint64) (objects int, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := again(run)
	for i := range s.got {
		switch e := &s.got[i]; {
		case e.ID == what.Begin[0].ID:
			objects, ended = 0, false
		case e.ID == what.End[0].ID:
			ended = true
		case e.Run == run:
			objects, ended = objects+1, false
		}
	}
	return objects, ended
}

// TestResnapshot goes to a sink that fails now and then, amid events; it returns
// when everything is there, and requests wait for each other.
func TestResnapshot(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j := withObjects(t, 100)
		var writes atomic.Int32
		s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
			if writes.Add(1)%10 == 1 {
				return len(batch) / 2, errors.New("down")
			}
			return len(batch), nil
		}}
		g := start(t, j, s, lanes)
		amid := events(0, 50)
		for i := range amid {
			amid[i].Target, amid[i].Resource = "core/services", "services"
		}
		mustAppend(t, j, amid)
		var all sync.WaitGroup
		for run := range uint64(3) {
			all.Go(func() {
				objects, err := g.Resnapshot(t.Context(), again(run+1), patience)
				if err != nil || !maps.Equal(objects, map[string]int{"core/pods": 100}) {
					t.Errorf("Resnapshot: %v, %v", objects, err)
				}
				if n, ended := ofRun(s, run+1); n != 100 || !ended {
					t.Errorf("run %d: %d objects are there when it returns, ended: %t", run+1, n, ended)
				}
			})
		}
		all.Wait()
		g.drain(t, time.Minute)
		if n := len(s.ids()); n != 50+3*102 {
			t.Errorf("%d deliveries, want %d", n, 50+3*102)
		}
	})
}

// TestResnapshotThroughARoute counts what the route lets through, and returns when that
// is there, though the records are not.
func TestResnapshotThroughARoute(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		s := &fakeSink{write: func(ctx context.Context, batch []event.Event) (int, error) {
			return len(batch), wait(ctx, 20*time.Millisecond)
		}}
		g := start(t, withObjects(t, 60), s, func(o *deliver.Options) {
			lanes(o)
			o.Route = route(t, false, deliver.Match{Resource: "pods", Control: []event.Op{}})
		})
		objects, err := g.Resnapshot(t.Context(), again(1), patience)
		if n, _ := ofRun(s, 1); err != nil || objects["core/pods"] != 60 || n != 60 {
			t.Errorf("Resnapshot: %v, %v, with %d objects there", objects, err, n)
		}
		left := start(t, withObjects(t, 60), s, func(o *deliver.Options) {
			lanes(o)
			o.Name, o.Route = "left", route(t, true, deliver.Match{Resource: "secrets"})
		})
		if objects, err := left.Resnapshot(t.Context(), again(2), patience); err != nil || objects["core/pods"] != 0 {
			t.Errorf("Resnapshot of what the route leaves out: %v, %v", objects, err)
		}
		g.drain(t, time.Minute)
		left.drain(t, time.Minute)
	})
}

// TestResnapshotOverAReplacement begins again with the next sink.
func TestResnapshotOverAReplacement(t *testing.T) {
	for _, lanes := range []int{1, 4} {
		t.Run(strconv.Itoa(lanes), func(t *testing.T) {
			j := withObjects(t, 100)
			hang := make(chan struct{})
			first := &fakeSink{write: func(ctx context.Context, batch []event.Event) (int, error) {
				if batch[0].Op == event.Synced {
					return len(batch), nil
				}
				select {
				case <-hang:
				default:
					close(hang)
				}
				<-ctx.Done()
				return 0, ctx.Err()
			}}
			g := start(t, j, first, func(o *deliver.Options) { o.Lanes = lanes })
			done := g.resnapshot(t.Context(), 1, patience)
			<-hang
			second := &fakeSink{}
			next := setup(t, second)
			next.Lanes = lanes
			mustReplace(t, g, next)
			must(t, <-done)
			if n, ended := ofRun(second, 1); n != 100 || !ended || len(second.ids()) != 102 {
				t.Errorf("the next sink got %d objects, ended: %t; %d events", n, ended, len(second.ids()))
			}
			g.drain(t, time.Minute)
		})
	}
}

// TestResnapshotThatNobodyWaitsFor is made all the same, and so is the next one.
func TestResnapshotThatNobodyWaitsFor(t *testing.T) {
	j := withObjects(t, 10) // and one more
	held, free := make(chan struct{}, 100), make(chan struct{})
	s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
		held <- struct{}{}
		<-free
		return len(batch), nil
	}}
	g := start(t, j, s, nil)
	mustAppend(t, j, events(0, 1))
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	ended := g.resnapshot(ctx, 1, patience)
	waitFor(t, "the request is accepted", func() bool { return len(g.Status().Resnapshots) == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Resnapshot: %v", err)
	}
	close(free)
	if objects, err := g.Resnapshot(t.Context(), again(2), patience); err != nil || objects["core/pods"] != 11 {
		t.Errorf("the next one: %v, %v", objects, err)
	}
	if n, ended := ofRun(s, 1); n != 11 || !ended {
		t.Errorf("%d objects of the one that nobody waits for, ended: %t", n, ended)
	}
	g.drain(t, time.Minute)
	if _, err := g.Resnapshot(t.Context(), again(3), patience); err == nil {
		t.Error("a sink that has ended takes a request")
	}
}

// TestResnapshotOfASinkThatIsDown: a request waits, also during the first snapshot of the sink, and is made when the sink
// is up and that snapshot is complete. The objects are there when it returns.
func TestResnapshotOfASinkThatIsDown(t *testing.T) {
	for _, name := range []string{"out", "new"} { // a new sink has its first snapshot to come
		t.Run(name, func(t *testing.T) {
			eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
				var up atomic.Bool
				s := whenUp(&up)
				g := start(t, withObjects(t, 10), s, func(o *deliver.Options) { lanes(o); o.Name = name })
				made := g.resnapshot(t.Context(), 1, deliver.Forever)
				<-time.After(time.Hour)
				if diff := cmp.Diff([]uint64{1}, g.pending()); diff != "" || len(made) > 0 {
					t.Errorf("pending while the sink is down (-want +got):\n%s", diff)
				}
				up.Store(true)
				must(t, <-made)
				if n, ended := ofRun(s, 1); n != 10 || !ended || len(g.pending()) != 0 {
					t.Errorf("%d objects, ended: %t, pending: %v", n, ended, g.pending())
				}
				g.drain(t, time.Minute)
			})
		})
	}
}

// TestRepeat: a schedule asks again while the sink is down, and the sink gets the objects once.
func TestRepeat(t *testing.T) {
	j := withObjects(t, 10)
	var up atomic.Bool
	s := whenUp(&up)
	g := start(t, j, s, nil)
	for run := range uint64(3) {
		g.Repeat(t.Context(), again(run+1))
	}
	if runs := g.pending(); len(runs) != 1 || runs[0] != 1 {
		t.Errorf("runs %v are pending, want the first one", runs)
	}
	up.Store(true)
	waitFor(t, "it is complete", func() bool { return len(g.pending()) == 0 })
	g.Repeat(t.Context(), again(4))
	waitFor(t, "the next one is complete", func() bool { _, ended := ofRun(s, 4); return ended && len(g.pending()) == 0 })
	for run, want := range map[uint64]int{1: 10, 2: 0, 3: 0, 4: 10} {
		if n, _ := ofRun(s, run); n != want {
			t.Errorf("%d objects in run %d, want %d", n, run, want)
		}
	}
}

// TestRepeatLeavesRoom: while a sink is down, the schedule of many resources does not keep an operator's request
// from being accepted.
func TestRepeatLeavesRoom(t *testing.T) {
	j := withObjects(t, 10)
	g := start(t, j, whenUp(new(atomic.Bool)), nil)
	for n := range 100 {
		what := again(uint64(n + 1))
		what.Begin[0].Resource = fmt.Sprint("resource-", n)
		g.Repeat(t.Context(), what)
	}
	accepted := len(g.pending())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Resnapshot(ctx, again(1000), patience); !errors.Is(err, context.Canceled) {
		t.Errorf("a request: %v", err)
	}
	if n := len(g.pending()); accepted == 0 || n != accepted+1 {
		t.Errorf("%d are pending, %d of the schedule", n, accepted)
	}
	must(t, g.Stop(t.Context()))
}

// TestResnapshotOutlivesTheRunner: a sink is down, requests are pending, and the runner
// ends. The next one makes them, in their order and with their runs.
func TestResnapshotOutlivesTheRunner(t *testing.T) {
	j := withObjects(t, 10)
	g := start(t, j, whenUp(new(atomic.Bool)), nil)
	var results []<-chan error
	for run := range uint64(2) {
		results = append(results, g.resnapshot(t.Context(), run+1, patience))
		waitFor(t, "the request is durable", func() bool { return len(g.pending()) == int(run)+1 })
	}
	pending := []deliver.Pending{{Resource: "core/pods", Run: 1}, {Resource: "core/pods", Run: 2}}
	if diff := cmp.Diff(pending, g.Status().Resnapshots); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	must(t, g.Stop(t.Context()))
	for _, result := range results {
		if err := <-result; !errors.Is(err, deliver.ErrPending) && (err == nil || !strings.Contains(err.Error(), "when it starts again")) {
			t.Errorf("Resnapshot: %v", err)
		}
	}
	must(t, <-g.result)
	if diff := cmp.Diff([]uint64{1, 2}, g.pending()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	up := &fakeSink{}
	next := start(t, j, up, nil)
	waitFor(t, "both are complete", func() bool { return len(next.pending()) == 0 })
	for run := range uint64(2) {
		if n, ended := ofRun(up, run+1); n != 10 || !ended {
			t.Errorf("run %d: %d objects, ended: %t", run+1, n, ended)
		}
	}
	next.drain(t, time.Minute)
}

// TestChangesWithinASnapshotAreStates: a snapshot leaves out an object that has a newer event. A sink that gets no such
// events gets a state of that, as it would take the object for a deleted one; of other resources it gets none.
func TestChangesWithinASnapshotAreStates(t *testing.T) {
	for _, snapshot := range []bool{true, false} {
		t.Run(strconv.FormatBool(snapshot), func(t *testing.T) {
			j, s := withObjects(t, 2), &fakeSink{}
			c, err := j.Open("out", journal.FromSnapshot)
			must(t, err)
			must(t, errors.Join(c.Request(t.Context(), again(7)), c.Close()))
			amid := events(2, 4)
			for i, op := range []event.Op{event.Modified, event.Entered, event.Modified, event.Deleted} {
				amid[i].Op, amid[i].Name = op, fmt.Sprint("object-", i%2)
				amid[i].UID = amid[i].Name
				amid[i].ID = form.ObjectID(amid[i].UID, amid[i].ResourceVersion, 0)
				amid[i].Data = []byte(`{"changed":["n"],"object":{}}`)
			}
			amid[2].Resource, amid[2].Target = "services", "core/services"
			mustAppend(t, j, amid)
			g := start(t, j, s, func(o *deliver.Options) {
				o.Route = route(t, snapshot, deliver.Match{Ops: []event.Op{event.Snapshot, event.Added, event.Deleted}})
			})
			waitFor(t, "the request is complete", func() bool { return len(g.pending()) == 0 })
			mustAppend(t, j, events(6, 1))
			g.drain(t, time.Minute)
			var got []string
			for i := range s.got {
				e := &s.got[i]
				got = append(got, fmt.Sprint(e.Op, " ", e.Name, " ", e.ResourceVersion, " ", e.Run))
				if e.Op == event.Snapshot && e.Member(event.MemberChanged) != nil {
					t.Errorf("a state says what has changed: %s", e.Data)
				}
			}
			want := []string{"begin  9 7", "snapshot object-0 2 7", "snapshot object-1 3 7", "deleted object-1 5 0", "synced  9 7"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRemovedHistoryWithinASnapshot: a change that may be the only event of its object is a state also while another
// resource is announced again.
func TestRemovedHistoryWithinASnapshot(t *testing.T) {
	j, s := withObjects(t, 2), &fakeSink{}
	c, err := j.Open("out", journal.FromSnapshot)
	must(t, err)
	must(t, errors.Join(c.Request(t.Context(), again(7)), c.Close()))
	amid := events(3, 1)
	amid[0].Resource, amid[0].Target = "services", "core/services"
	mustAppend(t, j, amid)
	g := start(t, detaching(j, j.Stats().LastSeq), s, func(o *deliver.Options) {
		o.Route = route(t, true, deliver.Match{Ops: []event.Op{event.Snapshot, event.Added, event.Deleted}})
	})
	waitFor(t, "the request is complete", func() bool { return len(g.pending()) == 0 })
	g.drain(t, time.Minute)
	states := 0
	for i := range s.got {
		if e := &s.got[i]; e.Resource == "services" && e.Op == event.Snapshot && e.Run == 0 && !e.Replay {
			states++
		}
	}
	if states != 1 {
		t.Errorf("%d states of the service, want 1: %v", states, s.ids())
	}
}

// TestRedeliveredEndOfAResnapshot: the end of an earlier attempt may be a dead letter. If it is delivered again, the
// re-snapshot is not at its end.
func TestRedeliveredEndOfAResnapshot(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		writing, free := make(chan struct{}), make(chan struct{})
		var once sync.Once
		s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
			once.Do(func() {
				close(writing)
				<-free
			})
			return len(batch), nil
		}}
		g := start(t, withObjects(t, 500), s, lanes)
		done := g.resnapshot(t.Context(), 7, patience)
		<-writing
		letter := again(7).End[0]
		letter.Redelivered = true
		inserted := g.insert(t.Context(), letter)
		synctest.Wait() // the letter is there before the rest is read
		close(free)
		must(t, <-inserted)
		select {
		case err := <-done:
			must(t, err)
		case <-time.After(10 * time.Second):
			t.Error("the re-snapshot does not end")
		}
		g.drain(t, time.Minute)
	})
}
