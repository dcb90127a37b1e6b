package journal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
)

// TestErrorOfARead: a file that cannot be opened for a moment costs a sink no event, and no gap.
func TestErrorOfARead(t *testing.T) {
	l := newLogTest(t)
	c, err := l.Open("sink", journal.FromNow)
	l.ok(err)
	const events = 40
	for i := range events {
		l.add(fmt.Sprintf("modified n%d", i%4))
	}
	var opens atomic.Int64
	l.disk.Set(disktest.On("open", func() error {
		if opens.Add(1)%3 == 2 {
			return syscall.EMFILE
		}
		return nil
	}))
	last := uint64(0)
	for n := 0; n < events; {
		entries, err := c.Read(t.Context(), 100)
		if err != nil {
			if !errors.Is(err, syscall.EMFILE) {
				t.Fatal(err)
			}
			continue
		}
		for _, e := range entries {
			if e.Event.Gap != nil || e.Seq != last+1 && last != 0 {
				t.Fatalf("%d is followed by %d, gap %+v", last, e.Seq, e.Event.Gap)
			}
			last = e.Seq
			n++
		}
	}
}

// TestMarkOnAFullDisk: a checkpoint waits for space, as events do.
func TestMarkOnAFullDisk(t *testing.T) {
	l := newLogTest(t)
	l.disk.Set(disktest.On("write", func() error { return syscall.ENOSPC }))
	done := make(chan error, 1)
	go func() { done <- l.Mark(t.Context(), "core/pods", []byte("7")) }()
	select {
	case err := <-done:
		t.Fatalf("Mark on a full disk: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	l.disk.Set(disktest.Faults{})
	select {
	case err := <-done:
		l.ok(err)
	case <-time.After(time.Minute):
		t.Fatal("Mark does not go on")
	}
	at, err := l.Restore(t.Context(), "core/pods", func(event.Event) {})
	if err != nil || string(at.Mark) != "7" {
		t.Errorf("the mark is %q, %v", at.Mark, err)
	}
}

// TestMarkAfterAFailedSync: a sync that has failed is final, also for want of space: a checkpoint does not wait for that.
func TestMarkAfterAFailedSync(t *testing.T) {
	l := newLogTest(t)
	l.disk.Set(disktest.On("fsync", func() error { return syscall.ENOSPC }))
	l.ok(l.Mark(t.Context(), "core/pods", []byte("7")))
	<-l.Failed()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.Mark(ctx, "core/pods", []byte("8")); !errors.Is(err, l.Failure()) {
		t.Errorf("Mark: %v, and the journal has failed with %v", err, l.Failure())
	}
}

// TestDeletionsFillTheLog: objects come and go, each with a new name. The log is full of deletions that
// all sinks have passed and that deletedRetention keeps: they lose their data, and Append goes on.
func TestDeletionsFillTheLog(t *testing.T) {
	c := testConfig(t)
	c.MaxBytes = 2 << 20
	j := openJournal(t, c)
	sink, err := j.Open("sink", journal.FromNow)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	reading, stop := context.WithCancel(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		keepUp(reading, t, sink)
	}()
	for i := range 1000 {
		for _, op := range []event.Op{event.Added, event.Deleted} {
			if err := j.Append(ctx, []event.Event{pod(op, i, 5000)}); err != nil {
				t.Fatalf("object %d: %v; %+v", i, err, j.Stats())
			}
		}
	}
	last, known, err := j.Last(ctx, &event.Event{Op: event.Deleted, Resource: "pods", Namespace: "jobs", Name: "pod-0"})
	if err != nil || !known || last.Op != event.Deleted {
		t.Errorf("the first deletion is %+v, %t, %v", last, known, err)
	}
	stop()
	<-read
	must(t, j.Close())
}

// TestCloseAfterAFailure: a cursor closes once, also when the log has failed.
func TestCloseAfterAFailure(t *testing.T) {
	l := newLogTest(t)
	c, err := l.Open("sink", journal.FromNow)
	l.ok(err)
	l.disk.Set(disktest.On("write", func() error { return syscall.EIO }))
	if err := l.Append(t.Context(), []event.Event{l.event("added n")}); err == nil {
		t.Fatal("Append succeeds on a broken disk")
	}
	_ = c.Close() // the position cannot be saved
	for range 50 {
		if err := c.Close(); !errors.Is(err, journal.ErrClosed) {
			t.Fatalf("Close: %v", err)
		}
	}
}

// TestCheckpointsOfALostLog: no segment is left, so that it is not known which targets had a
// checkpoint. All are void, also in the next process, until they have one.
func TestCheckpointsOfALostLog(t *testing.T) {
	l := newLogTest(t)
	l.add("added a")
	l.ok(l.Mark(t.Context(), "core/configmaps", []byte("5")))
	l.ok(journal.SyncAll(t.Context(), l.Journal))
	journal.Kill(l.Journal)
	names, err := l.disk.Names()
	l.ok(err)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".idx") {
			l.ok(l.disk.Remove(name))
		}
	}
	l.open()
	if !l.void() {
		t.Error("the checkpoint is not void")
	}
	l.restart(true)
	if !l.void() {
		t.Error("the checkpoint is not void in the next process")
	}
	l.ok(l.Mark(t.Context(), "core/configmaps", []byte("9")))
	if l.void() {
		t.Error("the new checkpoint is void")
	}
}

// TestHangingDisk: a write or sync that does not return shows in the state. Close gives up, and the next
// process continues.
func TestHangingDisk(t *testing.T) {
	a := event.Event{Resource: "configmaps", Namespace: "default", Name: "a"}
	for _, call := range []string{"write", "fsync", "create"} {
		t.Run(call, func(t *testing.T) {
			l := newLogTest(t, history(1), func(c *journal.Config) { journal.Hasty(c, 150*time.Millisecond) })
			c := l.cursor("sink", journal.FromNow)
			l.add("added a", "added b", "modified b", "modified b", "modified b", "modified b", "modified b", "modified b")
			l.read(c)
			l.commit(c)
			l.ok(journal.Save(l.Journal))
			l.ok(journal.SyncAll(t.Context(), l.Journal))
			answers := make(chan struct{})
			l.disk.Set(disktest.On(call, func() error {
				<-answers
				return nil
			}))
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 8 { // more than a segment
					_ = l.Append(l.t.Context(), []event.Event{l.event("modified b")})
				}
			}()
			waitFor(t, "the state is red", func() bool { ok, _ := l.State(); return !ok && l.Hung() })
			if _, reason := l.State(); !strings.Contains(reason, "has not answered for") {
				t.Error(reason)
			}
			if call == "write" || call == "fsync" {
				if err := l.Close(); err == nil || !strings.Contains(err.Error(), "does not answer") {
					t.Errorf("Close = %v", err)
				}
			}
			close(answers)
			<-done
			waitFor(t, "the state is green", func() bool { return !l.Hung() })
			journal.Kill(l.Journal)
			l.disk.Restart()
			l.open()
			if _, ok, err := l.Last(t.Context(), &a); !ok || err != nil {
				t.Errorf("the next process has the object: %t, %v", ok, err)
			}
		})
	}
}
