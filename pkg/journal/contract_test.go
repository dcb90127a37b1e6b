package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

func testConfig(t *testing.T) journal.Config {
	return journal.Config{Dir: t.TempDir(), Cluster: "test", Logger: slog.New(slog.DiscardHandler)}
}

func openJournal(t *testing.T, c journal.Config) *journal.Journal {
	t.Helper()
	j, err := journal.Open(c)
	must(t, err)
	return j
}

func TestContract(t *testing.T) {
	testContract(t, func(t *testing.T) *journal.Journal { return openJournal(t, testConfig(t)) })
}

// testContract tests what a journal promises, wherever it is: the journals that open returns, each of them
// empty.
func testContract(t *testing.T, open func(t *testing.T) *journal.Journal) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *journal.Journal){
		"order":           testOrder,
		"independent":     testIndependent,
		"oldest":          testOldest,
		"commit skips":    testCommitSkips,
		"commit is floor": testCommitIsFloor,
		"reset":           testReset,
		"lag":             testLag,
		"read waits":      testReadWaits,
		"read context":    testReadContext,
		"append context":  testAppendContext,
		"name in use":     testNameInUse,
		"close":           testClose,
		"cursor close":    testCursorClose,
		"concurrent":      testConcurrent,
	} {
		t.Run(name, func(t *testing.T) {
			j := open(t)
			test(t, j)
			if err := j.Close(); err != nil && !errors.Is(err, journal.ErrClosed) {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// numbered makes n events of one object each, with the ids "<prefix><i>".
func numbered(prefix string, n int) []event.Event {
	events := make([]event.Event, n)
	for i := range events {
		id := prefix + strconv.Itoa(i)
		events[i] = event.Event{
			ID: id, Op: event.Added, Cluster: "test", Target: "core/configmaps",
			Version: "v1", Resource: "configmaps", Kind: "ConfigMap",
			Namespace: "default", Name: "n" + id, UID: "u" + id,
			ResourceVersion: uint64(i + 1), Ordinal: 1,
			Data: fmt.Appendf(nil, `{"object":{"i":%d}}`, i),
		}
	}
	return events
}

// readAll reads n entries in calls of at most limit and returns them.
func readAll(t *testing.T, c *journal.Cursor, n, limit int) []journal.Entry {
	t.Helper()
	var all []journal.Entry
	for len(all) < n {
		entries, err := c.Read(t.Context(), min(limit, n-len(all)))
		if err != nil {
			t.Fatalf("Read after %d of %d entries: %v", len(all), n, err)
		}
		if len(entries) == 0 || len(entries) > limit {
			t.Fatalf("Read(%d) returned %d entries", limit, len(entries))
		}
		all = append(all, entries...)
	}
	return all
}

func mustOpen(t *testing.T, j *journal.Journal, name string) *journal.Cursor {
	t.Helper()
	c, err := j.Open(name, journal.FromSnapshot)
	if err != nil {
		t.Fatalf("Open(%q): %v", name, err)
	}
	return c
}

func mustAppend(t *testing.T, j *journal.Journal, events []event.Event) {
	t.Helper()
	must(t, j.Append(t.Context(), events))
}

func ids(entries []journal.Entry) []string {
	s := make([]string, len(entries))
	for i := range entries {
		s[i] = entries[i].Event.ID
	}
	return s
}

func wantIDs(t *testing.T, entries []journal.Entry, events []event.Event) {
	t.Helper()
	want := make([]string, len(events))
	for i := range events {
		want[i] = events[i].ID
	}
	got := ids(entries)
	for i := range got {
		got[i], _, _ = event.ParseID(got[i]) // a journal may have a snapshot for a new cursor
	}
	if !slices.Equal(got, want) {
		t.Errorf("ids = %v, want %v", got, want)
	}
}

func testOrder(t *testing.T, j *journal.Journal) {
	c := mustOpen(t, j, "a")
	events := numbered("e", 100)
	mustAppend(t, j, events[:1])
	mustAppend(t, j, nil)
	mustAppend(t, j, events[1:])
	entries := readAll(t, c, 100, 7)
	wantIDs(t, entries, events)
	if got := entries[99].Event; !reflect.DeepEqual(got, events[99]) {
		t.Errorf("event = %+v, want %+v", got, events[99])
	}
	last := uint64(0)
	for _, e := range entries {
		if e.Seq <= last {
			t.Fatalf("sequence %d follows %d", e.Seq, last)
		}
		last = e.Seq
	}
	if got := j.Stats().LastSeq; got != last {
		t.Errorf("Stats().LastSeq = %d, want %d", got, last)
	}
}

func testIndependent(t *testing.T, j *journal.Journal) {
	a, b := mustOpen(t, j, "a"), mustOpen(t, j, "b")
	events := numbered("e", 10)
	mustAppend(t, j, events)
	entries := readAll(t, a, 10, 10)
	must(t, a.Commit(entries[9].Seq))
	wantIDs(t, readAll(t, b, 10, 3), events)
}

func testOldest(t *testing.T, j *journal.Journal) {
	events := numbered("e", 5)
	mustAppend(t, j, events)
	wantIDs(t, readAll(t, mustOpen(t, j, "late"), 5, 5), events)
}

func testCommitSkips(t *testing.T, j *journal.Journal) {
	c := mustOpen(t, j, "a")
	events := numbered("e", 10)
	mustAppend(t, j, events)
	first := readAll(t, c, 4, 4)
	must(t, c.Commit(first[1].Seq))
	// What was read goes on where it was, whatever is committed below.
	wantIDs(t, readAll(t, c, 6, 6), events[4:])
}

func testCommitIsFloor(t *testing.T, j *journal.Journal) {
	c := mustOpen(t, j, "a")
	mustAppend(t, j, numbered("e", 10))
	entries := readAll(t, c, 10, 10)
	for _, i := range []int{7, 3, 7} {
		must(t, c.Commit(entries[i].Seq))
		if got := c.Lag().Events; got != 2 {
			t.Errorf("lag after committing entry %d = %d, want 2", i, got)
		}
	}
}

// testReset: what was read and not committed comes again, and so does all that
// follows.
func testReset(t *testing.T, j *journal.Journal) {
	c := mustOpen(t, j, "a")
	events := append(numbered("e", 9), numbered("f", 1)...)
	mustAppend(t, j, events[:9])
	entries := readAll(t, c, 6, 4)
	reset := func() {
		t.Helper()
		must(t, c.Reset(t.Context()))
	}
	must(t, c.Commit(entries[2].Seq))
	reset()
	wantIDs(t, readAll(t, c, 6, 2), events[3:9])
	reset()
	mustAppend(t, j, events[9:])
	wantIDs(t, readAll(t, c, 7, 7), events[3:])
	must(t, c.Close())
	if err := c.Reset(t.Context()); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Reset after Close: %v", err)
	}
}

func testLag(t *testing.T, j *journal.Journal) {
	c := mustOpen(t, j, "a")
	if got := c.Lag(); got != (journal.Lag{}) {
		t.Errorf("lag of an empty journal = %+v", got)
	}
	mustAppend(t, j, numbered("e", 10))
	if got := c.Lag(); got.Events != 10 || got.Seconds < 0 {
		t.Errorf("lag = %+v, want 10 events", got)
	}
	entries := readAll(t, c, 10, 10)
	if got := c.Lag().Events; got != 10 {
		t.Errorf("lag after reading = %d, want 10: nothing was committed", got)
	}
	must(t, c.Commit(entries[9].Seq))
	if got := c.Lag(); got != (journal.Lag{}) {
		t.Errorf("lag after committing all = %+v", got)
	}
}

func testReadWaits(t *testing.T, j *journal.Journal) {
	c := mustOpen(t, j, "a")
	events := numbered("e", 1)
	done := make(chan []journal.Entry)
	go func() {
		entries, err := c.Read(t.Context(), 10)
		if err != nil {
			t.Errorf("Read: %v", err)
		}
		done <- entries
	}()
	mustAppend(t, j, events)
	wantIDs(t, <-done, events)
}

func testReadContext(t *testing.T, j *journal.Journal) {
	c := mustOpen(t, j, "a")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.Read(ctx, 10)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Read = %v, want context.Canceled", err)
	}
	events := numbered("e", 1)
	mustAppend(t, j, events)
	wantIDs(t, readAll(t, c, 1, 1), events)
}

func testAppendContext(t *testing.T, j *journal.Journal) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Append(ctx, numbered("e", 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Append = %v, want context.Canceled", err)
	}
}

func testNameInUse(t *testing.T, j *journal.Journal) {
	c := mustOpen(t, j, "a")
	if _, err := j.Open("a", journal.FromSnapshot); err == nil {
		t.Error("a name was opened twice")
	}
	must(t, c.Close())
	mustOpen(t, j, "a")
}

func testClose(t *testing.T, j *journal.Journal) {
	c := mustOpen(t, j, "a")
	done := make(chan error)
	go func() {
		_, err := c.Read(t.Context(), 1)
		done <- err
	}()
	must(t, j.Close())
	_, openErr := j.Open("b", journal.FromSnapshot)
	for call, err := range map[string]error{
		"Read":   <-done,
		"Append": j.Append(t.Context(), numbered("e", 1)),
		"Open":   openErr,
		"Commit": c.Commit(1),
		"Close":  j.Close(),
	} {
		if !errors.Is(err, journal.ErrClosed) {
			t.Errorf("%s = %v, want ErrClosed", call, err)
		}
	}
}

func testCursorClose(t *testing.T, j *journal.Journal) {
	c := mustOpen(t, j, "a")
	done := make(chan error)
	go func() {
		_, err := c.Read(t.Context(), 1)
		done <- err
	}()
	must(t, c.Close())
	for call, err := range map[string]error{
		"Read":   <-done,
		"Commit": c.Commit(1),
		"Close":  c.Close(),
	} {
		if !errors.Is(err, journal.ErrClosed) {
			t.Errorf("%s = %v, want ErrClosed", call, err)
		}
	}
	mustAppend(t, j, numbered("e", 1))
}

// testConcurrent lets several goroutines append while several cursors read and
// commit: every cursor sees one and the same order, which keeps the order of
// each goroutine and its batches together.
func testConcurrent(t *testing.T, j *journal.Journal) {
	const appenders, batches, perBatch = 4, 50, 5
	const total = appenders * batches * perBatch
	orders := make([][]string, 3)
	var wg sync.WaitGroup
	for i := range orders {
		c := mustOpen(t, j, "cursor"+strconv.Itoa(i))
		wg.Go(func() { orders[i] = readAndCommit(t, c, total, i+1) })
	}
	for a := range appenders {
		wg.Go(func() {
			events := numbered(strconv.Itoa(a)+"-", batches*perBatch)
			for len(events) > 0 {
				if err := j.Append(t.Context(), events[:perBatch]); err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				events = events[perBatch:]
			}
		})
	}
	wg.Wait()
	for i, order := range orders[1:] {
		if !slices.Equal(orders[0], order) {
			t.Errorf("cursors 0 and %d read different orders", i+1)
		}
	}
	next := map[string]int{}
	for i, id := range orders[0] {
		prefix := id[:2]
		if want := prefix + strconv.Itoa(next[prefix]); id != want {
			t.Fatalf("entry %d is %s, want %s", i, id, want)
		}
		if next[prefix]++; next[prefix]%perBatch != 0 && !strings.HasPrefix(orders[0][i+1], prefix) {
			t.Fatalf("the batch around %s is torn apart", id)
		}
	}
}

// readAndCommit reads total entries in calls of at most limit, commits each
// call's, and returns the ids.
func readAndCommit(t *testing.T, c *journal.Cursor, total, limit int) []string {
	var order []string
	for len(order) < total {
		entries, err := c.Read(t.Context(), limit)
		if err != nil {
			t.Errorf("Read: %v", err)
			return order
		}
		order = append(order, ids(entries)...)
		if err := c.Commit(entries[len(entries)-1].Seq); err != nil {
			t.Errorf("Commit: %v", err)
			return order
		}
	}
	return order
}
