package tail_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/internal/tail"
	"github.com/informd/informd/pkg/event"
)

func numbered(n int, data string) event.Event {
	return event.Event{
		ID: fmt.Sprintf("u:%d", n), Op: event.Modified, Cluster: "c", Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "a",
		Name: fmt.Sprint("p", n%7), UID: "u", ResourceVersion: uint64(n), Data: []byte(data),
	}
}

// open opens a reader. It has no goroutine, and ends with its feed.
func open(t *testing.T, feed *tail.Feed, wants func(*event.Event) bool) *tail.Reader {
	t.Helper()
	r, err := feed.Open(wants)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// large is the data of an event.
func large(size int) string { return `{"object":"` + strings.Repeat("x", size) + `"}` }

// TestReadersGetAllInOrder: each reader gets each event that it wants, once and in order, while
// several goroutines publish and the memory of the events is reused.
func TestReadersGetAllInOrder(t *testing.T) {
	const events, readers = 2000, 8
	var feed tail.Feed
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var running sync.WaitGroup
	for k := range readers {
		r := open(t, &feed, func(e *event.Event) bool { return e.ResourceVersion%readers >= uint64(k) })
		running.Go(func() {
			defer r.Close()
			last := uint64(0)
			for n := 1; n <= events; n++ {
				if n%readers < k {
					continue
				}
				if last >= uint64(n) {
					continue
				}
				lines, err := r.Next(ctx, 0)
				if err != nil {
					t.Errorf("reader %d after %d: %v", k, last, err)
					return
				}
				for _, l := range lines {
					want := fmt.Sprintf(`{"object":{"n":%d}}`, l.Event.ResourceVersion)
					if l.Event.ResourceVersion <= last || string(l.Event.Data) != want || !json.Valid(l.JSON) || !bytes.Contains(l.JSON, []byte(want)) {
						t.Errorf("reader %d gets %s after %d", k, l.JSON, last)
						return
					}
					last = l.Event.ResourceVersion
				}
			}
		})
	}
	buffer := make([]byte, 0, 100)
	for n := 1; n <= events; n++ {
		e := numbered(n, "")
		e.Data = fmt.Appendf(buffer[:0], `{"object":{"n":%d}}`, n)
		feed.Publish([]event.Event{e})
	}
	running.Wait()
	if n := feed.Readers(); n != 0 {
		t.Errorf("%d readers are open at the end", n)
	}
}

// TestSlowReader: a reader has a part of what the feed keeps in its hands, and gets the rest later.
func TestSlowReader(t *testing.T) {
	var feed tail.Feed
	r := open(t, &feed, nil)
	data := large(400 << 10)
	const events = 20
	for n := 1; n <= events; n++ {
		feed.Publish([]event.Event{numbered(n, data)})
	}
	for n := uint64(0); n < events; {
		lines, err := r.Next(t.Context(), 0)
		if err != nil || len(lines) > 3 {
			t.Fatalf("after %d: %d lines at once, %v", n, len(lines), err)
		}
		for _, l := range lines {
			if n++; l.Event.ResourceVersion != n {
				t.Fatalf("event %d comes as %d", l.Event.ResourceVersion, n)
			}
		}
	}
}

// TestLimit: a reader with a limit gets the newest of all events, and knows how many it has missed.
func TestLimit(t *testing.T) {
	var feed tail.Feed
	r := open(t, &feed, func(e *event.Event) bool { return e.ResourceVersion != 99 })
	data := large(400 << 10)
	for n := 91; n <= 100; n++ {
		feed.Publish([]event.Event{numbered(n, data)})
	}
	lines, err := r.Next(t.Context(), 3)
	if err != nil || len(lines) != 3 || r.Missed != 6 {
		t.Fatalf("the reader gets %d lines and misses %d: %v", len(lines), r.Missed, err)
	}
	for i, want := range []uint64{97, 98, 100} {
		if got := lines[i].Event.ResourceVersion; got != want {
			t.Errorf("line %d is of %d, want %d", i, got, want)
		}
	}
}

// TestSlowReaderMissesEvents: it does not hold up the others, the memory is bounded, and it continues with
// what there is.
func TestSlowReaderMissesEvents(t *testing.T) {
	var feed tail.Feed
	slow, fast := open(t, &feed, nil), open(t, &feed, nil)
	data := large(1 << 20)
	const events = 40
	for n := 1; n <= events; n++ {
		feed.Publish([]event.Event{numbered(n, data)})
		lines, err := fast.Next(t.Context(), 0)
		if err != nil || len(lines) != 1 || lines[0].Event.ResourceVersion != uint64(n) {
			t.Fatalf("the fast reader gets %d lines and %v at %d", len(lines), err, n)
		}
	}
	last, got := uint64(0), uint64(0)
	for last < events {
		lines, err := slow.Next(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if l.Event.ResourceVersion <= last {
				t.Fatalf("%d comes after %d", l.Event.ResourceVersion, last)
			}
			last = l.Event.ResourceVersion
			got++
		}
	}
	if slow.Missed < events-16 || slow.Missed+got != events {
		t.Errorf("the slow reader gets %d events and misses %d of %d", got, slow.Missed, events)
	}
}

func TestReadersAreBounded(t *testing.T) {
	var feed tail.Feed
	first := open(t, &feed, nil)
	for range tail.MaxReaders - 1 {
		open(t, &feed, nil)
	}
	if _, err := feed.Open(nil); !errors.Is(err, tail.ErrTooMany) {
		t.Errorf("one reader too many gets %v", err)
	}
	first.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t, &feed, nil).Next(ended, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Next with an ended context returns %v", err)
	}
}

// TestPublishWithoutReaders costs nothing.
func TestPublishWithoutReaders(t *testing.T) {
	var feed tail.Feed
	events := []event.Event{numbered(1, `{"object":{}}`)}
	if n := testing.AllocsPerRun(100, func() { feed.Publish(events) }); n != 0 {
		t.Errorf("%v allocations without a reader", n)
	}
}

// TestEndOfAWaitLosesNothing: ctx ends while a condition is evaluated. The next call continues there.
func TestEndOfAWaitLosesNothing(t *testing.T) {
	var feed tail.Feed
	for _, wanted := range []int{0, 3} { // none and some of the events before the end are wanted
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		r := open(t, &feed, func(*event.Event) bool {
			if seen++; seen == 4 {
				cancel()
			}
			return seen <= wanted || seen > 4
		})
		for n := 1; n <= 10; n++ {
			feed.Publish([]event.Event{numbered(n, `{"object":{}}`)})
		}
		first, err := r.Next(ctx, 0)
		if len(first) != wanted || (wanted == 0) != errors.Is(err, context.Canceled) {
			t.Errorf("%d events, %v; want %d", len(first), err, wanted)
		}
		rest, err := r.Next(t.Context(), 0)
		if err != nil || len(rest) != 6 || seen != 10 {
			t.Errorf("then %d events of %d seen, %v; want 6 of 10", len(rest), seen, err)
		}
		r.Close()
	}
}
