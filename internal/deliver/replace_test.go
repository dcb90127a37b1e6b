package deliver_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

func mustReplace(t *testing.T, g *rig, s deliver.Setup) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, g.Replace(ctx, s))
}

// TestReplace changes the sink, its lanes and its type many times while events
// come: they arrive once, in order, and every sink is closed.
func TestReplace(t *testing.T) {
	j := newJournal(t)
	sinks := []*fakeSink{{}}
	g := start(t, j, sinks[0], nil)
	const rounds, each = 40, 50
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		for i := range rounds * each {
			mustAppend(t, j, events(i, 1))
		}
	}()
	for i := range rounds {
		s := &fakeSink{}
		sinks = append(sinks, s)
		next := setup(t, s)
		next.Lanes, next.Type = 1+3*(i%2), "fake"+strconv.Itoa(i)
		mustReplace(t, g, next)
		if got := g.Status().Type; got != next.Type {
			t.Errorf("type %q, want %q", got, next.Type)
		}
	}
	<-appended
	if left := g.drain(t, time.Minute); left != 0 {
		t.Errorf("%d events are left", left)
	}
	var got []event.Event
	for i, s := range sinks {
		got = append(got, s.got...)
		if opened := s.timesClosed() > 0 || len(s.got) > 0; opened && s.timesClosed() != 1 {
			t.Errorf("sink %d was closed %d times", i, s.timesClosed())
		}
	}
	if len(got) != rounds*each {
		t.Fatalf("%d events arrived, want %d", len(got), rounds*each)
	}
	last := map[string]uint64{}
	for _, e := range got {
		if e.ResourceVersion <= last[e.Name] && last[e.Name] != 0 {
			t.Errorf("%s follows revision %d of %s", e.ID, last[e.Name], e.Name)
		}
		last[e.Name] = e.ResourceVersion
	}
}

// TestReplaceWhatFails: a sink that fails, hangs or cannot be opened is replaced
// within seconds; what it had not taken comes to the next.
func TestReplaceWhatFails(t *testing.T) {
	hanging := func(ctx context.Context, _ []event.Event) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
	for name, write := range map[string]func(context.Context, []event.Event) (int, error){"fails": alwaysFails, "hangs": hanging} {
		for _, lanes := range []int{1, 4} {
			t.Run(name+strconv.Itoa(lanes), func(t *testing.T) {
				t.Parallel()
				j := newJournal(t)
				g := start(t, j, &fakeSink{write: write}, func(o *deliver.Options) { o.Lanes = lanes })
				mustAppend(t, j, events(0, 20))
				inserted := g.insert(t.Context(), events(1000, 1)[0])
				works := &fakeSink{}
				mustReplace(t, g, setup(t, works))
				if err := <-inserted; err != nil {
					t.Errorf("Insert: %v", err)
				}
				g.drain(t, time.Minute)
				got := slices.DeleteFunc(works.ids(), func(id string) bool { return id == "1000" })
				if !slices.Equal(got, numbers(0, 20)) || len(works.got) != 21 {
					t.Errorf("the next sink got %v", works.ids())
				}
				if s := g.Status(); s.State != deliver.Stopped {
					t.Errorf("state %s", s.State)
				}
			})
		}
	}
	t.Run("cannot be opened", func(t *testing.T) {
		t.Parallel()
		j := newJournal(t)
		g := start(t, j, nil, func(o *deliver.Options) {
			o.Open = func(context.Context) (sink.Sink, error) { return nil, errors.New("no such file") }
		})
		mustAppend(t, j, events(0, 3))
		works := &fakeSink{}
		mustReplace(t, g, setup(t, works))
		waitFor(t, "delivered", func() bool { return len(works.ids()) == 3 && g.Status().State == deliver.Running })
		g.drain(t, time.Minute)
	})
}

// TestReplaceOfTheRoute lets other events through from then on.
func TestReplaceOfTheRoute(t *testing.T) {
	j, s := newJournal(t), &fakeSink{}
	g := start(t, j, s, func(o *deliver.Options) { o.Route = route(t, true, deliver.Match{Resource: "secrets"}) })
	mustAppend(t, j, events(0, 5))
	waitFor(t, "filtered", func() bool { return g.Status().Filtered == 5 })
	mustReplace(t, g, setup(t, s))
	mustAppend(t, j, events(5, 5))
	g.drain(t, time.Minute)
	if got := s.ids(); !slices.Equal(got, numbers(5, 5)) {
		t.Errorf("got %v", got)
	}
}

// TestStop ends a sink that fails, gives its metrics and its cursor back, and
// leaves the journal to the others.
func TestStop(t *testing.T) {
	j := newJournal(t)
	s := &fakeSink{write: alwaysFails}
	g := start(t, j, s, nil)
	mustAppend(t, j, events(0, 5))
	waitFor(t, "the sink fails", func() bool { return g.Status().State == deliver.Retrying })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, g.Stop(ctx))
	if err := <-g.result; err != nil || s.timesClosed() != 1 {
		t.Errorf("Run: %v, closed %d times", err, s.timesClosed())
	}
	found, err := g.registry.Gather()
	must(t, err)
	for _, f := range found {
		if strings.HasPrefix(f.GetName(), "informd_sink_") {
			t.Errorf("%s is left", f.GetName())
		}
	}
	// Again under the same name.
	again := start(t, j, &fakeSink{}, nil)
	again.drain(t, time.Minute)
	must(t, g.Stop(ctx))
}
