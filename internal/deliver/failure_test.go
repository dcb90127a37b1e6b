package deliver_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// poisonous says whether a test's sink never takes the event: 1 % of them.
func poisonous(e *event.Event) bool {
	n, err := strconv.Atoi(e.ID)
	return err == nil && n%100 == 42
}

func split(n int) (good, poisoned []string) {
	for _, e := range events(0, n) {
		if poisonous(&e) {
			poisoned = append(poisoned, e.ID)
		} else {
			good = append(good, e.ID)
		}
	}
	return good, poisoned
}

// stopAtPoison writes up to the first poisonous event, where it calls fail.
func stopAtPoison(fail func() error) func(context.Context, []event.Event) (int, error) {
	return func(_ context.Context, batch []event.Event) (int, error) {
		for i := range batch {
			if poisonous(&batch[i]) {
				return i, fail()
			}
		}
		return len(batch), nil
	}
}

func letterIDs(letters []letter) []string {
	list := make([]string, len(letters))
	for i, l := range letters {
		list[i], _ = l.Event["id"].(string)
	}
	return list
}

func TestPermanentErrorsGoToTheDeadLetters(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		const total = 3000
		j := newJournal(t)
		s := &fakeSink{write: stopAtPoison(func() error { return sink.Permanent(errors.New("status 400")) })}
		g := start(t, j, s, lanes)
		mustAppend(t, j, events(0, total))
		synctest.Wait()
		good, poisoned := split(total)
		checkSet(t, s.ids(), good)
		letters := readLetters(t, g.letters)
		checkSet(t, letterIDs(letters), poisoned)
		for _, l := range letters {
			if l.Reason != "status 400" || l.Attempts != 1 || l.Sink != "out" {
				t.Errorf("letter = %+v", l)
			}
		}
		status := g.Status()
		if status.DeadLetters != 30 || status.Delivered != 2970 || status.Retries != 0 || status.LagEvents != 0 {
			t.Errorf("status = %+v", status)
		}
		if got := g.logs.count("ERROR"); got != 1 {
			t.Errorf("%d errors in the log, want one for the first dead letter", got)
		}
		if g.logs.count("runbook="+display.AlertRunbook("InformdDeadLetters")+" ") == 0 {
			t.Error("the error does not lead to its runbook")
		}
		g.drain(t, time.Second)
	})
}

// TestUnknownRefusals: an event that the destination refuses for a reason that the sink does
// not know gets ten tries, and those behind it are delivered then.
func TestUnknownRefusals(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		const total = 300
		j := newJournal(t)
		s := &fakeSink{write: stopAtPoison(func() error { return sink.Unknown(errors.New("status 409")) })}
		g := start(t, j, s, lanes)
		mustAppend(t, j, events(0, total))
		good, poisoned := split(total)
		deadline := time.Now().Add(time.Duration(len(poisoned)) * 90 * time.Second)
		for g.Status().LagEvents > 0 && time.Now().Before(deadline) {
			<-time.After(time.Second) // of the bubble's clock
		}
		checkSet(t, s.ids(), good)
		letters := readLetters(t, g.letters)
		checkSet(t, letterIDs(letters), poisoned)
		for _, l := range letters {
			if l.Reason != "status 409" || l.Attempts != 10 {
				t.Errorf("letter = %+v, want 10 attempts", l)
			}
		}
		g.drain(t, time.Second)
	})
}

func TestAttemptsBeforeTheDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		// Event 2 is tried for the first time in the first one.
		s := inTurn(answer{2, errDown}, answer{0, errDown}, answer{0, sink.Permanent(errors.New("gone"))})
		mustAppend(t, j, events(0, 5))
		g := start(t, j, s, nil)
		g.drain(t, time.Minute)
		letters := readLetters(t, g.letters)
		if len(letters) != 1 || letters[0].Event["id"] != "2" || letters[0].Attempts != 3 {
			t.Errorf("letters = %+v, want event 2 after 3 attempts", letters)
		}
	})
}

// TestDeadLetterEndsTheFailure: with the event that could not be delivered gone,
// nothing is left to retry.
func TestDeadLetterEndsTheFailure(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j := newJournal(t)
		s := inTurn(answer{0, errDown}, answer{0, sink.Permanent(errors.New("status 400"))})
		g := start(t, j, s, lanes)
		mustAppend(t, j, events(0, 1))
		<-time.After(time.Minute)
		if got := g.Status(); got.State != deliver.Running || got.DeadLetters != 1 {
			t.Errorf("status = %+v", got)
		}
		g.drain(t, time.Second)
	})
}

// brokenBox is one on a disk that does not work for a while.
type brokenBox struct {
	deliver.Box
	broken atomic.Bool
}

var errBroken = errors.New("input/output error")

func (b *brokenBox) Put(ctx context.Context, letter []byte) error {
	if b.broken.Load() {
		return errBroken
	}
	return b.Box.Put(ctx, letter)
}

// TestDeadLetterThatCannotBeWritten: nothing is lost meanwhile, and delivery
// goes on when the disk is back.
func TestDeadLetterThatCannotBeWritten(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j := newJournal(t)
		box := &brokenBox{Box: j.DeadLetters("out")}
		box.broken.Store(true)
		s := &fakeSink{write: stopAtPoison(func() error { return sink.Permanent(errors.New("status 400")) })}
		g := start(t, j, s, func(o *deliver.Options) {
			lanes(o)
			o.DeadLetters = deliver.NewDeadLetters("out", box)
		})
		mustAppend(t, j, events(0, 100))
		<-time.After(time.Minute)
		status := g.Status()
		if status.State != deliver.Retrying || status.DeadLetters != 0 || status.LagEvents == 0 ||
			!strings.Contains(status.LastError, errBroken.Error()) || !strings.Contains(status.LastError, "status 400") {
			t.Errorf("status = %+v", status)
		}
		box.broken.Store(false)
		g.drain(t, time.Minute)
		good, poisoned := split(100)
		checkSet(t, s.ids(), good)
		checkSet(t, letterIDs(readLetters(t, g.letters)), poisoned)
	})
}

// TestPanickingSink: the event that makes the sink panic ends in the dead
// letters, and no other.
func TestPanickingSink(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		const total = 500
		j := newJournal(t)
		other := &fakeSink{}
		o := start(t, j, other, func(o *deliver.Options) { o.Name = "other" })
		s := &fakeSink{write: stopAtPoison(func() error { panic("index out of range") })}
		g := start(t, j, s, lanes)
		mustAppend(t, j, events(0, total))
		synctest.Wait()
		checkSet(t, other.ids(), numbers(0, total))
		g.drain(t, time.Hour)
		o.drain(t, time.Minute)
		good, poisoned := split(total)
		checkSet(t, s.ids(), good)
		letters := readLetters(t, g.letters)
		checkSet(t, letterIDs(letters), poisoned)
		for _, l := range letters {
			if l.Reason != "sink panicked: index out of range" {
				t.Errorf("reason = %q", l.Reason)
			}
		}
		if got := g.logs.count("failure_test.go"); got != 1 {
			t.Errorf("%d log lines have the stack, want one", got)
		}
	})
}

// TestPanicThatPasses: a sink that panics once has lost nothing.
func TestPanicThatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, calls := newJournal(t), 0
		s := &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
			if calls++; calls <= 2 {
				panic("nil map")
			}
			return len(batch), nil
		}}
		mustAppend(t, j, events(0, 10))
		g := start(t, j, s, nil)
		g.drain(t, time.Minute)
		checkSet(t, s.ids(), numbers(0, 10))
		if got := g.Status(); got.DeadLetters != 0 || got.Delivered != 10 {
			t.Errorf("status = %+v", got)
		}
	})
}

func TestPanicInClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSink{close: func(context.Context) error { panic("closed twice") }}
		g := start(t, newJournal(t), s, nil)
		synctest.Wait()
		g.drain(t, time.Second)
		if got := g.logs.count("sink not closed cleanly"); got != 1 {
			t.Errorf("%d lines about the close", got)
		}
	})
}

// TestLongErrors has a sink fail with 3 MB of text, for a while and for good: the status
// and the dead letter have at most 1 KiB of it.
func TestLongErrors(t *testing.T) {
	const most = 1 << 10
	synctest.Test(t, func(t *testing.T) {
		long := errors.New("refused: " + strings.Repeat("x", 3<<20))
		s := inTurn(answer{0, long}, answer{0, sink.Permanent(long)})
		j := newJournal(t)
		g := start(t, j, s, nil)
		mustAppend(t, j, events(0, 1))
		synctest.Wait()
		if got := g.Status().LastError; len(got) > most || !strings.HasPrefix(got, "refused: x") {
			t.Errorf("the last error has %d bytes", len(got))
		}
		g.drain(t, time.Minute)
		letters := readLetters(t, g.letters)
		if len(letters) != 1 || len(letters[0].Reason) > most || !strings.HasPrefix(letters[0].Reason, "refused: x") {
			t.Errorf("%d letters, want one with a reason of at most %d bytes", len(letters), most)
		}
	})
}

// TestAnswerIsForTheLog: what a destination answers is in the log, not in the status nor
// in a dead letter.
func TestAnswerIsForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inTurn(
			answer{0, sink.WithAnswer(errors.New("status 500"), "hush-1")},
			answer{0, sink.Permanent(sink.WithAnswer(errors.New("status 400"), "hush-2"))})
		j := newJournal(t)
		g := start(t, j, s, nil)
		mustAppend(t, j, events(0, 1))
		synctest.Wait()
		if got := g.Status().LastError; got != "status 500" {
			t.Errorf("the last error is %q", got)
		}
		g.drain(t, time.Minute)
		if letters := readLetters(t, g.letters); len(letters) != 1 || letters[0].Reason != "status 400" {
			t.Errorf("letters = %+v", letters)
		}
		if one, two := g.logs.count("answer=hush-1"), g.logs.count("answer=hush-2"); one != 1 || two != 1 {
			t.Errorf("the log has the answers %d and %d times, want both once", one, two)
		}
	})
}
