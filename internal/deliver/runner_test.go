package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/sink"
)

var errDown = errors.New("destination is down")

// eachLanes runs a test in a bubble, with one lane and with several.
func eachLanes(t *testing.T, test func(t *testing.T, lanes func(*deliver.Options))) {
	t.Helper()
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprint("lanes=", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test(t, func(o *deliver.Options) { o.Lanes = n })
			})
		})
	}
}

func TestDelivers(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j, s := newJournal(t), &fakeSink{}
		g := start(t, j, s, lanes)
		mustAppend(t, j, events(0, 1000))
		synctest.Wait()
		checkSet(t, s.ids(), numbers(0, 1000))
		status := g.Status()
		want := deliver.Status{Name: "out", Type: "fake", State: deliver.Running, Delivered: 1000, LastSuccess: status.LastSuccess}
		if diff := cmp.Diff(want, status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		if left := g.drain(t, time.Second); left != 0 {
			t.Errorf("%d events left", left)
		}
		if got := s.timesClosed(); got != 1 {
			t.Errorf("the sink was closed %d times", got)
		}
		if got := g.Status().State; got != deliver.Stopped {
			t.Errorf("state = %s", got)
		}
		if got := g.logs.count("WARN"); got != 0 {
			t.Errorf("%d warnings", got)
		}
	})
}

func TestBatchesAreBounded(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j := newJournal(t)
		list := events(0, 1000)
		for i := range list[:500] {
			list[i].Data = make([]byte, 100_000)
		}
		list[7].Data = make([]byte, 3<<20) // alone beyond any bound
		s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
			bytes := 0
			for i := range batch {
				bytes += batch[i].Size()
			}
			if len(batch) == 0 || len(batch) > 256 || len(batch) > 1 && bytes > 1<<20 {
				t.Errorf("a batch of %d events and %d bytes", len(batch), bytes)
			}
			return len(batch), nil
		}}
		mustAppend(t, j, list)
		start(t, j, s, lanes).drain(t, time.Minute)
		checkSet(t, s.ids(), numbers(0, 1000))
	})
}

func TestRouteFilters(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j, s := newJournal(t), slowly(time.Millisecond)
		list := events(0, 1000)
		var want []string
		for i := range list {
			if i%3 == 1 && i < 900 { // the last ones are all left out
				want = append(want, list[i].ID)
			} else {
				list[i].Namespace = "elsewhere"
			}
		}
		g := start(t, j, s, func(o *deliver.Options) {
			lanes(o)
			o.Route = route(t, true, deliver.Match{Namespaces: []string{"default"}})
		})
		mustAppend(t, j, list)
		<-time.After(time.Minute)
		checkSet(t, s.ids(), want)
		status := g.Status()
		if status.Filtered != 700 || status.Delivered != 300 || status.LagEvents != 0 {
			t.Errorf("status = %+v", status)
		}
		g.drain(t, time.Second)
	})
}

func TestPrefixAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		calls := 0
		var firsts []string
		s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
			firsts = append(firsts, batch[0].ID)
			if calls++; calls <= 3 {
				return 4, errDown
			}
			return len(batch), nil
		}}
		mustAppend(t, j, events(0, 20))
		g := start(t, j, s, nil)
		synctest.Wait()
		if got := g.Status(); got.LagEvents != 16 || got.State != deliver.Retrying || got.LastError != errDown.Error() {
			t.Errorf("after a partial write: %+v", got)
		}
		g.drain(t, time.Minute)
		if diff := cmp.Diff([]string{"0", "4", "8", "12"}, firsts); diff != "" {
			t.Errorf("first events of the batches (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(numbers(0, 20), s.ids()); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
	})
}

// TestSinkThatMiscounts: a sink that breaks its contract is retried, and cannot
// make informd skip an event.
func TestSinkThatMiscounts(t *testing.T) {
	for name, wrong := range map[string]func(batch []event.Event) (int, error){
		"too many":         func(b []event.Event) (int, error) { return len(b) + 1, nil },
		"negative":         func([]event.Event) (int, error) { return -1, nil },
		"less, no error":   func(b []event.Event) (int, error) { return len(b) - 1, nil },
		"nothing, no word": func([]event.Event) (int, error) { return 0, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, calls := newJournal(t), 0
				s := &fakeSink{}
				s.write = func(_ context.Context, batch []event.Event) (int, error) {
					if calls++; calls == 1 {
						return wrong(batch)
					}
					return len(batch), nil
				}
				mustAppend(t, j, events(0, 5))
				g := start(t, j, s, nil)
				g.drain(t, time.Minute)
				if diff := cmp.Diff(numbers(0, 5), s.ids()); diff != "" {
					t.Errorf("delivered (-want +got):\n%s", diff)
				}
				if got := g.Status(); got.Retries != 1 || got.LastError == "" {
					t.Errorf("status = %+v, want one retry", got)
				}
			})
		})
	}
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures = 40
		var at []time.Time
		s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
			if at = append(at, time.Now()); len(at) <= failures {
				return 0, errDown
			}
			return len(batch), nil
		}}
		j := newJournal(t)
		mustAppend(t, j, events(0, 1))
		g := start(t, j, s, nil)
		<-time.After(failures * 30 * time.Second)
		synctest.Wait()
		if len(at) != failures+1 {
			t.Fatalf("%d attempts, want %d", len(at), failures+1)
		}
		longest := time.Duration(0)
		for i := range failures {
			pause := at[i+1].Sub(at[i])
			if bound := min(30*time.Second, 200*time.Millisecond<<min(i, 20)); pause > bound {
				t.Errorf("pause %d is %v, more than %v", i, pause, bound)
			}
			longest = max(longest, pause)
		}
		if longest < 15*time.Second {
			t.Errorf("the longest of %d pauses is %v", failures, longest)
		}
		if g.logs.count("sink unavailable") != 1 || g.logs.count("sink recovered") != 1 || g.logs.count("level=") != 2 {
			t.Errorf("the log should have one line for the begin and one for the end:\n%s", &g.logs.b)
		}
		if g.logs.count("runbook="+display.AlertRunbook("InformdSinkDown")+"\n") != 1 {
			t.Errorf("the line for the begin does not lead to its runbook:\n%s", &g.logs.b)
		}
		if got := g.Status(); got.State != deliver.Running || got.Retries != failures || got.LastError != errDown.Error() {
			t.Errorf("status = %+v", got)
		}
		g.drain(t, time.Second)
	})
}

// TestFlappingSinkIsQuiet: a sink that fails every other time does not fill the log.
func TestFlappingSinkIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, calls := newJournal(t), 0
		s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
			if calls++; calls%2 == 0 {
				return 0, errDown
			}
			return len(batch), nil
		}}
		g := start(t, j, s, nil)
		for i := range 200 {
			mustAppend(t, j, events(i, 1))
			<-time.After(290 * time.Millisecond)
		}
		synctest.Wait()
		if got := g.Status().Retries; got < 50 {
			t.Fatalf("only %d retries", got)
		}
		if got := g.logs.count("level="); got > 2 {
			t.Errorf("%d log lines in a minute", got)
		}
		g.drain(t, time.Minute)
	})
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asked = 5 * time.Minute
		var at []time.Time
		s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
			if at = append(at, time.Now()); len(at) == 1 {
				return 0, fmt.Errorf("post: %w", sink.WithRetryAfter(errDown, asked))
			}
			return len(batch), nil
		}}
		j := newJournal(t)
		mustAppend(t, j, events(0, 1))
		g := start(t, j, s, nil)
		<-time.After(time.Second)
		// Not even the end of the program makes informd come back too early.
		g.drain(t, time.Hour)
		if len(at) != 2 || at[1].Sub(at[0]) < asked {
			t.Errorf("attempts at %v, want a pause of at least %v", at, asked)
		}
	})
}

func TestOpenIsRetried(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j, s, calls := newJournal(t), &fakeSink{}, 0
		mustAppend(t, j, events(0, 3))
		g := start(t, j, s, func(o *deliver.Options) {
			lanes(o)
			o.Open = func(context.Context) (sink.Sink, error) {
				switch calls++; calls {
				case 1:
					panic("no luck")
				case 2, 3:
					return nil, sink.Permanent(errors.New("open /x: permission denied"))
				}
				return s, nil
			}
		})
		synctest.Wait()
		if got := g.Status(); got.State != deliver.Opening || got.LagEvents != 3 || !strings.Contains(got.LastError, "no luck") {
			t.Errorf("status = %+v", got)
		}
		<-time.After(time.Minute)
		if got := g.Status(); got.State != deliver.Running || got.LastError != "open: open /x: permission denied" || got.Retries != 3 {
			t.Errorf("status = %+v", got)
		}
		checkSet(t, s.ids(), numbers(0, 3))
		g.drain(t, time.Second)
	})
}

// TestDeadSinkDoesNotDelayAnother until the journal is full; when it comes back
// it gets everything.
func TestDeadSinkDoesNotDelayAnother(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		const total = 500
		all := events(0, total)
		for i := range all { // more than the journal has space for
			all[i].Name, all[i].Data = fmt.Sprint("pod", i), fmt.Appendf(nil, `{"object":{"data":"%4000d"}}`, i)
		}
		j := newJournal(t, maxBytes(1<<20))
		var up atomic.Bool
		dead, alive := whenUp(&up), &fakeSink{}
		a := start(t, j, alive, func(o *deliver.Options) { lanes(o); o.Name = "alive" })
		d := start(t, j, dead, lanes)
		appended := make(chan struct{})
		go func() {
			defer close(appended)
			for i := range all {
				mustAppend(t, j, all[i:i+1])
			}
		}()
		<-time.After(time.Minute)
		if got := j.Stats(); got.Blocked != 1 {
			t.Fatalf("journal = %+v, want it full", got)
		}
		full := int(j.Stats().LastSeq)
		if got := len(alive.ids()); got != full {
			t.Errorf("the living sink has %d events of %d", got, full)
		}
		if got := d.Status(); got.State != deliver.Retrying || got.LagEvents != uint64(full) {
			t.Errorf("status of the dead one = %+v", got)
		}
		up.Store(true)
		<-appended
		a.drain(t, time.Minute)
		d.drain(t, time.Minute)
		checkSet(t, alive.ids(), numbers(0, total))
		checkSet(t, dead.ids(), numbers(0, total))
	})
}

func TestJournalClosed(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j := newJournal(t)
		s := &fakeSink{}
		g := start(t, j, s, lanes)
		synctest.Wait()
		must(t, j.Close())
		if err := <-g.result; !errors.Is(err, journal.ErrClosed) || !strings.Contains(err.Error(), `"out"`) {
			t.Errorf("Run = %v, want ErrClosed and the sink's name", err)
		}
		if got := s.timesClosed(); got != 1 {
			t.Errorf("the sink was closed %d times", got)
		}
	})
}

func TestRunThatIsOverGivesBackWhatNewTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 { // the name and its metrics are free again
			g := newRig(t, j, &fakeSink{}, nil)
			must(t, g.Run(ctx))
		}
	})
}

// checkSet compares what was delivered with what should be, in any order.
func checkSet(t *testing.T, got, want []string) {
	t.Helper()
	count := map[string]int{}
	for _, id := range got {
		count[id]++
	}
	for _, id := range want {
		if count[id] != 1 {
			t.Errorf("event %s was delivered %d times", id, count[id])
		}
		delete(count, id)
	}
	if len(count) > 0 {
		t.Errorf("delivered, but should not: %v", count)
	}
}
