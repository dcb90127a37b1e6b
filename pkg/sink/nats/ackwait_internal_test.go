package nats

import (
	"testing"
	"testing/synctest"
	"time"
)

const longest = 5 * time.Second

// TestElection: while a server elects a leader the wait stays short, and grows later.
func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAckWait(longest)
		for began := time.Now(); time.Since(began) < 15*time.Second; {
			if got := w.Now(); got != shortestWait {
				t.Fatalf("after %v the wait is %v, want %v", time.Since(began), got, shortestWait)
			}
			<-time.After(w.Now())
			w.Unanswered()
		}
		for range 4 {
			<-time.After(w.Now())
			w.Unanswered()
		}
		if got := w.Now(); got != longest {
			t.Errorf("later the wait is %v, want %v", got, longest)
		}
		w.Answered(time.Millisecond)
		if got := w.Now(); got != shortestWait {
			t.Errorf("after an answer the wait is %v, want %v", got, shortestWait)
		}
	})
}

// TestSlow: a server that answers slowly gets the time that it needs, until it is fast.
func TestSlow(t *testing.T) {
	w := newAckWait(longest)
	w.Answered(time.Second)
	w.Answered(time.Millisecond)
	if got := w.Now(); got < 3*time.Second || got > longest {
		t.Errorf("the wait is %v after an answer that took 1 s", got)
	}
	w.Answered(time.Minute)
	if got := w.Now(); got != longest {
		t.Errorf("the wait is %v, want at most %v", got, longest)
	}
	for range 1000 {
		w.Answered(time.Millisecond)
	}
	if got := w.Now(); got != shortestWait {
		t.Errorf("the wait is %v when the server has been fast for long", got)
	}
}
