package journal_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/journaltest"
)

func TestMemoryConformance(t *testing.T) {
	journaltest.Run(t, func(*testing.T) journal.Journal { return journal.NewMemory(2 << 20) })
}

// TestMemoryConformanceTight runs the concurrent parts with room for next to
// nothing, so that everybody waits for everybody.
func TestMemoryConformanceTight(t *testing.T) {
	for _, capacity := range []uint64{1, 600, 5000} {
		t.Run(strconv.FormatUint(capacity, 10), func(t *testing.T) {
			j := journal.NewMemory(capacity)
			slow, fast := open(t, j, "slow"), open(t, j, "fast")
			events := journaltest.Events("e", 500)
			var wg sync.WaitGroup
			wg.Go(func() { mustAppend(t, j, events) })
			for _, c := range []journal.Cursor{slow, fast} {
				wg.Go(func() {
					for i := 0; i < len(events); {
						entries, err := c.Read(t.Context(), 3)
						if err != nil {
							t.Errorf("Read: %v", err)
							return
						}
						for _, e := range entries {
							if e.Event.ID != events[i].ID {
								t.Errorf("entry %d is %s, want %s", i, e.Event.ID, events[i].ID)
							}
							i++
						}
						commit(t, c, entries[len(entries)-1].Seq)
					}
				})
			}
			wg.Wait()
			if got := j.Stats(); got.Events != 0 || got.Bytes != 0 || got.Blocked != 0 {
				t.Errorf("stats at the end = %+v, want an empty journal", got)
			}
		})
	}
}

func TestMemoryBlocksWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := journaltest.Events("e", 6)
		size := uint64(e[0].Size())
		j := journal.NewMemory(3 * size)
		c := open(t, j, "a")
		done := make(chan error, 1)
		go func() { done <- j.Append(t.Context(), e) }()
		synctest.Wait()
		want := journal.Stats{Events: 3, Bytes: 3 * size, Capacity: 3 * size, LastSeq: 3, Blocked: 1}
		if diff := cmp.Diff(want, j.Stats()); diff != "" {
			t.Fatalf("stats (-want +got):\n%s", diff)
		}
		commit(t, c, 1)
		synctest.Wait()
		if got := j.Stats(); got.LastSeq != 4 || got.Blocked != 1 {
			t.Fatalf("after one commit: %+v, want sequence 4 and one blocked call", got)
		}
		commit(t, c, 4)
		synctest.Wait()
		if err := <-done; err != nil {
			t.Errorf("Append: %v", err)
		}
		if got := j.Stats(); got.LastSeq != 6 || got.Blocked != 0 {
			t.Errorf("at the end: %+v", got)
		}
	})
}

func TestMemoryWithoutCursorHoldsAndBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := journaltest.Events("e", 3)
		j := journal.NewMemory(uint64(2 * e[0].Size()))
		done := make(chan error, 1)
		go func() { done <- j.Append(t.Context(), e) }()
		synctest.Wait()
		if got := j.Stats(); got.Events != 2 || got.Blocked != 1 {
			t.Fatalf("stats = %+v, want 2 events held and 1 call blocked", got)
		}
		c := open(t, j, "late")
		for _, entry := range journaltest.ReadAll(t, c, 2, 2) {
			commit(t, c, entry.Seq)
		}
		if err := <-done; err != nil {
			t.Errorf("Append: %v", err)
		}
		if got := journaltest.ReadAll(t, c, 1, 1)[0].Event.ID; got != "e2" {
			t.Errorf("last event = %s, want e2", got)
		}
	})
}

func TestMemoryTakesOversizeEventWhenEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := journaltest.Events("e", 3)
		e[1].Data = make([]byte, 10_000)
		j := journal.NewMemory(1000)
		c := open(t, j, "a")
		done := make(chan error, 1)
		go func() { done <- j.Append(t.Context(), e) }()
		for want := uint64(1); want <= 3; want++ {
			synctest.Wait()
			if got := j.Stats(); got.LastSeq != want || got.Events != 1 {
				t.Fatalf("stats = %+v, want event %d alone", got, want)
			}
			commit(t, c, want)
		}
		if err := <-done; err != nil {
			t.Errorf("Append: %v", err)
		}
	})
}

func TestMemoryIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20
		e := journaltest.Events("e", n+1)
		e[0].Data = make([]byte, 5000) // the first in the queue needs most room
		j := journal.NewMemory(uint64(e[0].Size()))
		c := open(t, j, "a")
		mustAppend(t, j, e[n:])
		var order []string
		for i := range n {
			go func() {
				if err := j.Append(t.Context(), e[i:i+1]); err != nil {
					t.Errorf("Append: %v", err)
				}
			}()
			synctest.Wait()
		}
		if got := j.Stats(); got.Blocked != n || got.Events != 1 {
			t.Fatalf("stats = %+v, want everybody behind the big one", got)
		}
		for range n + 1 {
			entry := journaltest.ReadAll(t, c, 1, 1)[0]
			order = append(order, entry.Event.ID)
			commit(t, c, entry.Seq)
			synctest.Wait()
		}
		want := []string{e[n].ID}
		for i := range n {
			want = append(want, e[i].ID)
		}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestMemoryCancelledAppendGivesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := journaltest.Events("e", 3)
		e[1].Data = make([]byte, 5000)
		j := journal.NewMemory(2 * uint64(e[0].Size()))
		open(t, j, "a")
		mustAppend(t, j, e[:1])
		ctx, cancel := context.WithCancel(t.Context())
		big, small := make(chan error, 1), make(chan error, 1)
		go func() { big <- j.Append(ctx, e[1:2]) }()
		synctest.Wait()
		go func() { small <- j.Append(t.Context(), e[2:]) }()
		synctest.Wait()
		if got := j.Stats().Blocked; got != 2 {
			t.Fatalf("blocked = %d, want 2", got)
		}
		cancel()
		if err := <-big; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled Append = %v", err)
		}
		if err := <-small; err != nil {
			t.Errorf("the next Append = %v", err)
		}
		if got := j.Stats(); got.Events != 2 || got.Blocked != 0 {
			t.Errorf("stats = %+v", got)
		}
	})
}

func TestMemoryCloseEndsBlockedAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := journaltest.Events("e", 9)
		j := journal.NewMemory(1)
		done := make(chan error)
		for range 3 {
			go func() { done <- j.Append(t.Context(), e) }()
		}
		synctest.Wait()
		if err := j.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		for range 3 {
			if err := <-done; !errors.Is(err, journal.ErrClosed) {
				t.Errorf("Append = %v, want ErrClosed", err)
			}
		}
		if got := j.Stats(); got.Blocked != 0 || got.Bytes != 0 {
			t.Errorf("stats = %+v", got)
		}
	})
}

func TestMemoryClosedCursorHoldsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := journaltest.Events("e", 4)
		j := journal.NewMemory(2 * uint64(e[0].Size()))
		dead, alive := open(t, j, "dead"), open(t, j, "alive")
		mustAppend(t, j, e[:2])
		commit(t, alive, 2)
		done := make(chan error, 1)
		go func() { done <- j.Append(t.Context(), e[2:]) }()
		synctest.Wait()
		if got := j.Stats().Blocked; got != 1 {
			t.Fatalf("blocked = %d, want 1", got)
		}
		if err := dead.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Append: %v", err)
		}
	})
}

func TestMemoryLagSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journal.NewMemory(1 << 20)
		c := open(t, j, "a")
		e := journaltest.Events("e", 2)
		mustAppend(t, j, e[:1])
		<-time.After(3 * time.Second)
		mustAppend(t, j, e[1:])
		<-time.After(time.Second)
		if diff := cmp.Diff(journal.Lag{Events: 2, Seconds: 4}, c.Lag()); diff != "" {
			t.Errorf("lag (-want +got):\n%s", diff)
		}
		commit(t, c, 1)
		if diff := cmp.Diff(journal.Lag{Events: 1, Seconds: 1}, c.Lag()); diff != "" {
			t.Errorf("lag after a commit (-want +got):\n%s", diff)
		}
	})
}

func TestMemoryCommitBeyondTheEnd(t *testing.T) {
	j := journal.NewMemory(1 << 20)
	c := open(t, j, "a")
	mustAppend(t, j, journaltest.Events("e", 2))
	if err := c.Commit(t.Context(), 3); err == nil {
		t.Error("a commit beyond the end was accepted")
	}
	if got := c.Lag().Events; got != 2 {
		t.Errorf("lag = %d, want 2", got)
	}
}

func open(t *testing.T, j journal.Journal, name string) journal.Cursor {
	t.Helper()
	c, err := j.Open(name, journal.FromSnapshot)
	if err != nil {
		t.Fatalf("Open(%q): %v", name, err)
	}
	return c
}

func mustAppend(t *testing.T, j journal.Journal, events []event.Event) {
	t.Helper()
	if err := j.Append(t.Context(), events); err != nil {
		t.Errorf("Append: %v", err)
	}
}

func commit(t *testing.T, c journal.Cursor, seq uint64) {
	t.Helper()
	if err := c.Commit(t.Context(), seq); err != nil {
		t.Errorf("Commit(%d): %v", seq, err)
	}
}

func BenchmarkMemory(b *testing.B) {
	j := journal.NewMemory(64 << 20)
	c, err := j.Open("a", journal.FromSnapshot)
	if err != nil {
		b.Fatal(err)
	}
	events := journaltest.Events("e", 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		for left := b.N; left > 0; {
			entries, err := c.Read(b.Context(), min(256, left))
			if err != nil {
				b.Error(err)
				return
			}
			left -= len(entries)
			if err := c.Commit(b.Context(), entries[len(entries)-1].Seq); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportAllocs()
	for left := b.N; left > 0; left -= 100 {
		if err := j.Append(b.Context(), events[:min(100, left)]); err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
}
