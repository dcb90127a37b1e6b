package jetstream_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/journaltest"
)

// BenchmarkJournal appends events of 5 KB in batches of 64 while a cursor reads
// them, in JetStream with its server in this process, and in a temporary log. ns/op is of one event.
func BenchmarkJournal(b *testing.B) {
	b.Run("jetstream", func(b *testing.B) { benchmark(b, newHost(b).open()) })
	b.Run("memory", func(b *testing.B) { benchmark(b, journaltest.Open(b)) })
}

func benchmark(b *testing.B, j journal.Journal) {
	c := mustOpen(b, j, "bus", journal.FromNow)
	body := []byte(`{"object":"` + strings.Repeat("x", 5000) + `"}`)
	var now clock
	objects := make([]*object, 10_000)
	for i := range objects {
		objects[i] = &object{name: fmt.Sprintf("object-%d", i)}
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for left := b.N; left > 0; {
			entries, err := c.Read(b.Context(), min(256, left))
			if err != nil {
				b.Error(err)
				return
			}
			left -= len(entries)
			mustCommit(b, c, entries[len(entries)-1].Seq)
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	batch := make([]event.Event, 0, 64)
	for i := range b.N {
		o := objects[i%len(objects)]
		op := event.Modified
		if o.ordinal == 0 {
			op = event.Added
		}
		e := o.event(&now, op)
		e.Data = body
		if batch = append(batch, e); len(batch) == cap(batch) || i == b.N-1 {
			mustAppend(b, j, batch...)
			batch = batch[:0]
		}
	}
	reading.Wait()
}

// BenchmarkCatchUp reads events of 5 KB from the stream that no tail holds.
func BenchmarkCatchUp(b *testing.B) {
	h := newHost(b)
	j := h.open()
	mustClose(b, mustOpen(b, j, "bus", journal.FromNow))
	fill(b, j, b.N, 5000)
	mustClose(b, j)
	c := mustOpen(b, h.open(), "bus", journal.FromNow)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; {
		entries, err := c.Read(b.Context(), min(256, left))
		if err != nil {
			b.Fatal(err)
		}
		left -= len(entries)
	}
}

// BenchmarkRestore reads back the index of 100,000 objects.
func BenchmarkRestore(b *testing.B) {
	const n = 100_000
	h := newHost(b)
	j := h.open()
	fill(b, j, n, 500)
	mustClose(b, j)
	j = h.open()
	b.ResetTimer()
	for range b.N {
		got := 0
		if _, err := j.Restore(b.Context(), "core/configmaps", func(event.Event) { got++ }); err != nil || got != n {
			b.Fatalf("%d objects, %v", got, err)
		}
	}
}

// fill appends one event of each of n objects.
func fill(b *testing.B, j journal.Journal, n, size int) {
	b.Helper()
	body := []byte(`{"object":"` + strings.Repeat("x", size) + `"}`)
	var now clock
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	for i := 0; i < n; {
		batch := make([]event.Event, 0, 512)
		for ; i < n && len(batch) < cap(batch); i++ {
			e := (&object{name: fmt.Sprintf("object-%d", i)}).event(&now, event.Added)
			e.Data = body
			batch = append(batch, e)
		}
		if err := j.Append(ctx, batch); err != nil {
			b.Fatal(err)
		}
	}
}
