package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
// empty. Order, and where cursors continue, is for TestModel and testConcurrent.
func testContract(t *testing.T, open func(t *testing.T) *journal.Journal) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *journal.Journal){
		"commit is floor": testCommitIsFloor,
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
	mustAppend(t, j, nil)
	mustAppend(t, j, numbered("e", 1))
	if got := ids(readAll(t, c, 1, 1)); got[0] != "e0" {
		t.Errorf("Read = %v", got)
	}
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
		"Reset":  c.Reset(t.Context()),
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
