package tail

import (
	"fmt"
	"testing"

	"github.com/informd/informd/pkg/event"
)

// TestTail has acknowledgements with holes, what others wrote, and a log that
// begins again.
func TestTail(t *testing.T) {
	e := func(seq uint64) event.Event { return event.Event{ID: fmt.Sprint(seq)} }
	first := e(11)
	tail := New(3*first.Size(), 10)
	news := make(chan struct{}, 1)
	tail.Listen(news)
	check := func(next uint64, wantFirst, wantLast, wantBehind uint64) {
		t.Helper()
		entries, _, behind := tail.Take(next, 100)
		var first, last uint64
		for i, entry := range entries {
			if i == 0 {
				first = entry.Seq
			}
			if last = entry.Seq; entry.Event.ID != fmt.Sprint(last) {
				t.Errorf("sequence %d is event %s", last, entry.Event.ID)
			}
		}
		if first != wantFirst || last != wantLast || behind != wantBehind {
			t.Errorf("take(%d) = %d..%d behind %d, want %d..%d behind %d", next, first, last, behind, wantFirst, wantLast, wantBehind)
		}
	}
	check(11, 0, 0, 0)
	check(10, 0, 0, 10)
	for seq := uint64(11); seq <= 13; seq++ {
		if !tail.Push(seq, e(seq), 0) {
			t.Errorf("%d was refused", seq)
		}
	}
	<-news
	check(11, 11, 13, 0)
	check(12, 12, 13, 0)
	check(10, 0, 0, 10)
	tail.Push(14, e(14), 0) // the oldest has to go
	check(12, 12, 14, 0)
	check(11, 0, 0, 11)
	tail.Push(16, e(16), 0) // 15 is unknown
	check(16, 16, 16, 0)
	check(15, 0, 0, 15)
	tail.Reach(18)
	check(17, 0, 0, 18)
	check(19, 0, 0, 0)
	if !tail.Push(17, e(17), 0) {
		t.Error("an acknowledgement of what was found before was refused")
	}
	check(17, 0, 0, 18)
	tail.Push(19, e(19), 0)
	check(19, 19, 19, 0)
	if tail.Push(5, e(5), 0) || tail.Push(19, e(19), 0) {
		t.Error("sequences that count down were taken")
	}
	tail.Mute(news)
	<-news
	tail.Push(20, e(20), 0)
	if len(news) != 0 {
		t.Error("a muted reader was woken")
	}
}
