package relay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/lease"
)

// TestPausedWhileAppending: an append that the lease has ended halfway brings in the rest
// later, and no event twice.
func TestPausedWhileAppending(t *testing.T) {
	b := newBench(t)
	j := b.open()
	mustAppend(t, j, change("a", 1, event.Added))
	// The server answers nothing for b, so that its append has another attempt, which the
	// fence ends.
	b.answerNothing("k8s.test.core.configmaps.default.b", func() { b.setFence(lease.ErrPaused) })
	events := []event.Event{change("a", 2, event.Modified), change("a", 3, event.Modified), change("b", 1, event.Added), change("b", 2, event.Modified)}
	done := make(chan error, 1)
	go func() { done <- j.Append(t.Context(), events) }()
	until(t, "the lease is paused", func() bool { return b.fenced() != nil })
	select {
	case err := <-done:
		t.Fatalf("Append returns %v without the lease", err)
	case <-time.After(time.Second):
	}
	b.setFence(nil)
	close(b.wait)
	if err := <-done; err != nil {
		t.Fatalf("Append: %v", err)
	}
	if got := j.Stats().LastSeq; got != 5 {
		t.Errorf("the stream took %d messages for 5 events", got)
	}
}

// TestPausedWhileReplacing: if the lease ends the filling of a new stream halfway, the next
// attempt brings in the rest, and no event twice.
func TestPausedWhileReplacing(t *testing.T) {
	b := newBench(t)
	j := b.open()
	if _, err := j.Open("sink", journal.FromSnapshot); err != nil {
		t.Fatal(err)
	}
	events := []event.Event{change("a", 1, event.Added), change("a", 2, event.Modified), change("b", 1, event.Added), change("b", 2, event.Modified)}
	mustAppend(t, j, events...)
	b.answerNothing("k8s.test.core.configmaps.default.b", func() { b.setFence(lease.ErrPaused) })
	b.remove("INFORMD")
	until(t, "the lease is paused", func() bool { return b.fenced() != nil })
	until(t, "the filling fails", func() bool { return strings.Contains(j.Problem(), lease.ErrPaused.Error()) })
	b.setFence(nil)
	close(b.wait)
	until(t, "the journal is open again", func() bool { return len(b.wasReplaced()) == 1 })
	s, err := b.client.Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().State.LastSeq; got != uint64(len(events)) {
		t.Errorf("the stream took %d messages for %d events", got, len(events))
	}
}
