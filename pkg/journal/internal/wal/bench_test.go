package wal_test

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// cpu is the time of the processor that this process has used, in nanoseconds.
func cpu(b *testing.B) float64 {
	b.Helper()
	var usage syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano() + usage.Stime.Nano())
}

// onDisk opens a log with default sizes in a new directory.
func onDisk(b *testing.B) *wal.Log {
	b.Helper()
	dir, _, err := disk.Open(b.TempDir())
	must(b, err)
	o := options()
	o.SegmentBytes, o.TailBytes = 16<<20, 4<<20
	l, err := wal.Open(dir, o)
	must(b, err)
	b.Cleanup(func() {
		l.Abandon()
		if err := dir.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}

func batch(n int) []event.Event {
	events := make([]event.Event, n)
	data := []byte(`{"object":"` + strings.Repeat("0123456789abcdef", 310) + `"}`)
	for i := range events {
		events[i] = object(fmt.Sprint("pod-", i), event.Modified, 1)
		events[i].UID = fmt.Sprintf("6e2f1b7c-0000-4000-8000-%012d", i)
		events[i].Data = data
	}
	return events
}

func fill(b *testing.B, l *wal.Log, events []event.Event, n int) {
	b.Helper()
	for i := 0; i < n; i += len(events) {
		for j := range events {
			events[j].ResourceVersion = uint64(i + j)
			events[j].ID = form.ObjectID(events[j].UID, uint64(i+j), 0)
		}
		must(b, l.Writer.Append(b.Context(), events))
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, of := range []struct{ batch, bytes int }{{1, 5000}, {64, 5000}, {64, 8500}} {
		b.Run(fmt.Sprintf("batch=%d/bytes=%d", of.batch, of.bytes), func(b *testing.B) {
			l, events := onDisk(b), batch(of.batch)
			for i := range events {
				events[i].Data = bytes.Repeat([]byte("x"), of.bytes)
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu(b)
			fill(b, l, events, b.N)
			b.ReportMetric((cpu(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	const events = 20000
	l := onDisk(b)
	fill(b, l, batch(64), events)
	b.Run("files", func(b *testing.B) {
		before := cpu(b)
		for n := 0; n < b.N; {
			r := l.History.NewReader(1)
			for next := uint64(1); next <= l.Keys.Last() && n < b.N; {
				entries, err := r.Next(l.Barrier.Readable(), 256)
				if err != nil || len(entries) == 0 {
					b.Fatal(next, err)
				}
				n, next = n+len(entries), entries[len(entries)-1].Seq+1
			}
			r.Close()
		}
		b.ReportMetric((cpu(b)-before)/float64(b.N), "cpu-ns/op")
	})
	b.Run("tail", func(b *testing.B) {
		before := cpu(b)
		for n := 0; n < b.N; {
			entries, behind := l.Tail.Read(l.Keys.Last()-600, l.Keys.Last(), 256)
			if behind {
				b.Fatal("behind")
			}
			n += len(entries)
		}
		b.ReportMetric((cpu(b)-before)/float64(b.N), "cpu-ns/op")
	})
}

// Opening after a clean end, with as many objects as events.
func BenchmarkOpen(b *testing.B) {
	const objects = 100_000
	path := b.TempDir()
	use := func(f func(l *wal.Log)) {
		dir, _, err := disk.Open(path)
		must(b, err)
		o := options()
		o.SegmentBytes, o.TailBytes = 16<<20, 4<<20
		l, err := wal.Open(dir, o)
		must(b, err)
		f(l)
		must(b, l.Close(b.Context()))
		must(b, dir.Close())
	}
	use(func(l *wal.Log) {
		events := batch(1000)
		for i := range objects / len(events) {
			for j := range events {
				events[j].Name = fmt.Sprintf("pod-%d-%d", i, j)
				events[j].Data = events[j].Data[:400]
			}
			must(b, l.Writer.Append(b.Context(), events))
		}
	})
	for b.Loop() {
		before := cpu(b)
		use(func(l *wal.Log) {
			b.ReportMetric((cpu(b)-before)/1e6, "open-cpu-ms")
			n := 0
			before := cpu(b)
			if err := l.History.EachLast("core/pods", func(event.Event) { n++ }); err != nil || n != objects {
				b.Fatal(n, err)
			}
			b.ReportMetric((cpu(b)-before)/1e6, "restore-cpu-ms")
		})
	}
}
