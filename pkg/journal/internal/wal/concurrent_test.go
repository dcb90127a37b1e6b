package wal_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// keepNothing drops all but the last events, and all up to a sequence that readers have passed.
type keepNothing struct{ passed func() uint64 }

func (p keepNothing) Fate(e *segment.Entry, last wal.Last, _ string) wal.Fate {
	if last.IsEvent(e.Seq) || e.Seq > p.passed() {
		return wal.Keep
	}
	return wal.Drop
}

func (keepNothing) Dropped(*segment.Entry, string) {}

const perTarget = 600

// follow reads all events, from the tail or only from files, and returns how many there were.
func follow(ctx context.Context, l *wal.Log, events int, files bool, passed *atomic.Uint64) (n int, err error) {
	news := make(chan struct{}, 1)
	l.Monitor.Listen(news)
	defer l.Monitor.Mute(news)
	next := uint64(1)
	reader := l.History.NewReader(next)
	defer func() { reader.Close() }()
	for n < events {
		to := l.Barrier.Readable()
		entries, behind := l.Tail.Read(next, l.Keys.Last(), 10)
		if behind || files {
			if !files {
				reader.Close()
				reader = l.History.NewReader(next)
			} // else it stays in its segment
			if entries, err = reader.Next(to, 50); err != nil {
				return n, err
			}
		}
		for _, e := range entries {
			if e.Seq < next {
				return n, fmt.Errorf("%d follows %d", e.Seq, next)
			}
			next = e.Seq + 1
			n++
		}
		passed.Store(next - 1)
		if len(entries) > 0 {
			continue
		}
		select {
		case <-news:
		case <-ctx.Done():
			return n, fmt.Errorf("after %d events up to %d of %d: %w", n, next, to, ctx.Err())
		case <-l.Monitor.Failed():
			return n, l.Monitor.Failure()
		}
	}
	return n, nil
}

func write(ctx context.Context, l *wal.Log, target, events int) error {
	for i := range events / 2 {
		a, b := object(fmt.Sprint("n", i%20), event.Modified, uint64(2*i+1)), object(fmt.Sprint("n", i%30), event.Added, uint64(2*i+2))
		a.Resource, b.Resource = fmt.Sprint("r", target), fmt.Sprint("r", target)
		a.Target, b.Target = fmt.Sprint("target", target), fmt.Sprint("target", target)
		if err := l.Writer.Append(ctx, []event.Event{a, b}); err != nil {
			return err
		}
		err := l.Writer.Put(record.Mark, a.Target, fmt.Append(nil, i))
		if i%50 == 0 {
			err = errors.Join(err, l.Letters.Put(ctx, "sink", []byte("letter")), l.Letters.Drop(ctx, "sink", uint64(i/50)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestConcurrent(t *testing.T) {
	l := open(t, disktest.New(1), func(o *wal.Options) { o.SegmentBytes = 4 << 10 })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var passed [3]atomic.Uint64
	slowest := func() uint64 { return min(passed[0].Load(), passed[1].Load(), passed[2].Load()) }
	var all, background sync.WaitGroup
	run := func(name string, f func() error) {
		all.Go(func() {
			if err := f(); err != nil {
				t.Errorf("%s: %v", name, err)
				cancel()
			}
		})
	}
	for i := range 4 {
		run("write", func() error { return write(ctx, l, i, perTarget) })
	}
	for i := range 3 {
		run("read", func() error {
			_, err := follow(ctx, l, 4*perTarget, i > 0, &passed[i])
			return err
		})
	}
	done := make(chan struct{})
	background.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			err := l.Compactor.Compact(keepNothing{slowest}, 50+50*int64(i%2))
			n := 0
			err = errors.Join(err, l.History.EachLast("target1", func(event.Event) { n++ }))
			lasts, _, _ := l.History.Lasts(nil)
			before := len(lasts)
			of := object("n1", event.Modified, 1)
			of.Resource = "r1"
			_, lastErr := l.History.LastOf(&of)
			if errors.Is(lastErr, wal.ErrGone) {
				lastErr = nil // not written yet
			}
			err = errors.Join(err, lastErr, l.History.Each(&of, func(wal.Entry) error { return nil }))
			_, _, sinceErr := l.History.Since(time.Now().Add(-time.Millisecond))
			if err = errors.Join(err, sinceErr, l.Letters.Each(ctx, "sink", func(uint64, []byte) error { return nil })); err != nil || n > before {
				t.Errorf("compaction and history: %v; %d of %d", err, n, before)
				cancel()
				return
			}
			l.Writer.Stats()
		}
	})
	all.Wait()
	close(done)
	background.Wait()
	n := 0
	for target := range 4 {
		must(t, l.History.EachLast(fmt.Sprint("target", target), func(event.Event) { n++ }))
	}
	if n != 4*30 {
		t.Errorf("%d objects", n)
	}
	must(t, l.Close(t.Context()))
}

// Close in the middle of everything ends each call, and loses nothing of what was synced.
func TestCloseInTheMiddle(t *testing.T) {
	for round := range 10 {
		d := disktest.New(uint64(round))
		l := open(t, d, func(o *wal.Options) { o.SegmentBytes = 4 << 10 })
		var passed atomic.Uint64
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				if err := write(t.Context(), l, i, 1<<30); !errors.Is(err, wal.ErrClosed) {
					t.Errorf("write: %v", err)
				}
			})
			all.Go(func() {
				if _, err := follow(t.Context(), l, 1<<30, i == 0, &passed); !errors.Is(err, wal.ErrClosed) {
					t.Errorf("read: %v", err)
				}
			})
		}
		all.Go(func() {
			var err error
			for err == nil {
				err = l.Compactor.Compact(keepNothing{passed.Load}, 100)
			}
			if !errors.Is(err, wal.ErrClosed) {
				t.Errorf("compact: %v", err)
			}
		})
		for l.Keys.Last() < uint64(50+20*round) {
			must(t, l.Syncer.Sync(t.Context()))
		}
		must(t, l.Close(t.Context()))
		all.Wait()
		last := l.Keys.Last()
		d.PowerLoss()
		d.Restart()
		again := open(t, d, func(o *wal.Options) { o.Boot = "other" })
		if again.Void || again.Keys.Last() < last {
			t.Errorf("void: %t, last %d, was %d", again.Void, again.Keys.Last(), last)
		}
		again.Abandon()
	}
}

// A disk that does not answer is seen from outside, and ends with the call.
func TestHangingDisk(t *testing.T) {
	for _, call := range []string{"write", "fsync"} {
		t.Run(call, func(t *testing.T) {
			d := disktest.New(1)
			l := open(t, d, nil)
			hang, hangs := make(chan struct{}), make(chan struct{}, 100)
			d.Set(disktest.On(call, func() error {
				hangs <- struct{}{}
				<-hang
				return nil
			}))
			done := make(chan error, 2)
			go func() { done <- l.Writer.Append(t.Context(), []event.Event{object("a", event.Added, 1)}) }()
			<-hangs
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if call == "write" {
				if err := l.Writer.Append(ctx, []event.Event{object("b", event.Added, 2)}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a second append: %v", err)
				}
			} else if err := l.Syncer.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("sync: %v", err)
			}
			close(hang)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Append waits while the disk is full, and while the log is at its limit.
func TestFull(t *testing.T) {
	d := disktest.New(1)
	l := open(t, d, nil)
	d.Set(disktest.Faults{Size: 1})
	done := make(chan error, 1)
	go func() { done <- l.Writer.Append(t.Context(), []event.Event{object("a", event.Added, 1)}) }()
	waits := func(blocked int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); l.Writer.Stats().Blocked != blocked; {
			if time.Now().After(deadline) {
				t.Fatalf("%+v", l.Writer.Stats())
			}
			<-time.After(time.Millisecond)
		}
	}
	waits(1)
	if l.Keys.Last() != 0 || l.Writer.Put(record.Mark, "m", nil) == nil {
		t.Error("a full disk took a record")
	}
	d.Set(disktest.Faults{})
	if err := <-done; err != nil || l.Keys.Last() != 1 {
		t.Error(l.Keys.Last(), err)
	}
	l.Writer.SetLimit(1)
	go func() { done <- l.Writer.Append(t.Context(), []event.Event{object("b", event.Added, 2)}) }()
	waits(1)
	must(t, l.Writer.Put(record.Mark, "m", nil))
	l.Writer.SetLimit(1 << 20)
	if err := <-done; err != nil || l.Keys.Last() != 2 {
		t.Error(l.Keys.Last(), err)
	}
	waits(0)
	l.Abandon()
}

// TestSyncOnAFullDisk: a sync that has failed is final, also for want of space: calls do not wait for that.
func TestSyncOnAFullDisk(t *testing.T) {
	d := disktest.New(1)
	l := open(t, d, nil)
	defer l.Abandon()
	d.Set(disktest.On("fsync", func() error { return syscall.ENOSPC }))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if err := l.Writer.Append(ctx, []event.Event{object("a", event.Added, 1)}); err != nil {
			if !errors.Is(err, l.Monitor.Failure()) || l.Monitor.Failure() == nil {
				t.Errorf("Append: %v; the log has failed with %v", err, l.Monitor.Failure())
			}
			return
		}
		<-time.After(time.Millisecond)
	}
	t.Errorf("Append goes on: %v", l.Monitor.Failure())
}
