package deliver_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// slowly makes a sink that needs d for each event and honours its context.
func slowly(d time.Duration) *fakeSink {
	return &fakeSink{write: func(ctx context.Context, batch []event.Event) (int, error) {
		for i := range batch {
			if err := wait(ctx, d); err != nil {
				return i, err
			}
		}
		return len(batch), nil
	}}
}

func TestDrainWithoutTime(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j, s := newJournal(t), slowly(time.Second)
		mustAppend(t, j, events(0, 700))
		g := start(t, j, s, lanes)
		before := time.Now()
		left := g.drain(t, 5*time.Second+time.Millisecond)
		if took := time.Since(before); took > 6*time.Second {
			t.Errorf("Drain took %v", took)
		}
		delivered := uint64(len(s.ids()))
		// What a cut batch acknowledged with its last breath is committed, too;
		// with lanes only as far as it is contiguous.
		if delivered == 0 || left < 700-delivered || left == 700 || g.Status().LagEvents != left {
			t.Errorf("%d delivered, %d left of 700, status %+v", delivered, left, g.Status())
		}
		if got := s.timesClosed(); got != 1 {
			t.Errorf("the sink was closed %d times", got)
		}
	})
}

// TestDrainLeavesWhatCameLater: the end does not move while draining.
func TestDrainLeavesWhatCameLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s := newJournal(t), slowly(time.Millisecond)
		g := start(t, j, s, nil)
		mustAppend(t, j, events(0, 100))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := 100; j.Append(t.Context(), events(i, 1)) == nil; i++ {
				<-time.After(100 * time.Microsecond)
			}
		}()
		before := time.Now()
		if left := g.drain(t, time.Hour); left == 0 {
			t.Error("everything was delivered, although more came all the time")
		}
		if took := time.Since(before); took > 10*time.Second {
			t.Errorf("Drain took %v", took)
		}
		must(t, j.Close())
		<-ended
	})
}

// TestDrainDoesNotSitOutABackoff: a destination that is back gets its events
// although the next attempt was far away.
func TestDrainDoesNotSitOutABackoff(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j := newJournal(t)
		var up atomic.Bool
		s := whenUp(&up)
		mustAppend(t, j, events(0, 1))
		g := start(t, j, s, lanes)
		<-time.After(10*time.Minute + time.Second)
		up.Store(true)
		before := time.Now()
		if left := g.drain(t, time.Minute); left != 0 {
			t.Errorf("%d events left", left)
		}
		if took := time.Since(before); took != 0 {
			t.Errorf("Drain took %v", took)
		}
	})
}

func TestDrainOfAnIdleSinkIsImmediate(t *testing.T) {
	for name, open := range map[string]func(*fakeSink) func(context.Context) (sink.Sink, error){
		"running": func(s *fakeSink) func(context.Context) (sink.Sink, error) { return s.open },
		"opening": func(*fakeSink) func(context.Context) (sink.Sink, error) {
			return func(context.Context) (sink.Sink, error) { return nil, errDown }
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
				s := &fakeSink{}
				g := start(t, newJournal(t), s, func(o *deliver.Options) { lanes(o); o.Open = open(s) })
				<-time.After(time.Minute)
				before := time.Now()
				if left := g.drain(t, time.Hour); left != 0 || time.Since(before) != 0 {
					t.Errorf("Drain left %d and took %v", left, time.Since(before))
				}
			})
		})
	}
}

func TestDrainOfADeadSinkSaysWhatIsLeft(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j := newJournal(t)
		s := &fakeSink{write: alwaysFails}
		mustAppend(t, j, events(0, 9))
		g := start(t, j, s, lanes)
		if left := g.drain(t, 20*time.Second); left != 9 {
			t.Errorf("%d events left, want 9", left)
		}
	})
}

// TestDrainOfAHangingSink: a write that ignores its context does not keep the
// program from ending.
func TestDrainOfAHangingSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, release := newJournal(t), make(chan struct{})
		s := &fakeSink{write: func(context.Context, []event.Event) (int, error) {
			<-release
			return 0, errors.New("finally")
		}}
		mustAppend(t, j, events(0, 9))
		g := start(t, j, s, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		before := time.Now()
		left, err := g.Drain(ctx)
		if err == nil || left != 9 || time.Since(before) > time.Minute {
			t.Errorf("Drain = %d, %v after %v, want 9 left and an error", left, err, time.Since(before))
		}
		close(release)
		must(t, <-g.result)
	})
}

func TestCancelEndsRun(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		for _, s := range []*fakeSink{
			{},                   // waits for events
			slowly(time.Hour),    // is in a write
			{write: alwaysFails}, // is in a pause
		} {
			j := newJournal(t)
			g := newRig(t, j, s, lanes)
			ctx, cancel := context.WithCancel(t.Context())
			g.run(ctx)
			if s.write != nil {
				mustAppend(t, j, events(0, 50))
			}
			<-time.After(time.Second)
			before := time.Now()
			cancel()
			if err := <-g.result; err != nil || time.Since(before) != 0 {
				t.Errorf("Run = %v after %v", err, time.Since(before))
			}
			if got := s.timesClosed(); got != 1 {
				t.Errorf("the sink was closed %d times", got)
			}
		}
	})
}

func alwaysFails(context.Context, []event.Event) (int, error) { return 0, errDown }
