package deliver_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/sink"
)

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
