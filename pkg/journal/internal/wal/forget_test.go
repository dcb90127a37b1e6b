package wal_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// TestForget: forgotten objects are no last events any more, readers see all events as before, and compaction
// leaves nothing of them.
func TestForget(t *testing.T) {
	const all, forgotten = 500, 400
	d := disktest.New(1)
	l := open(t, d, nil)
	events, objects := make([]event.Event, all), make([]event.Event, forgotten)
	for i := range events {
		events[i] = object(fmt.Sprint("n", i), event.Added, uint64(i+1))
	}
	copy(objects, events)
	of := events[forgotten]
	of.Target = "core/pods@ns" // the object is not of that target
	must(t, errors.Join(l.Writer.Append(t.Context(), events), l.Writer.Forget(t.Context(), append(objects, of))))
	check := func(l *wal.Log, events int) {
		t.Helper()
		n := 0
		err := l.History.EachLast("core/pods", func(e event.Event) {
			if n++; e.ResourceVersion <= forgotten {
				t.Errorf("%s is not forgotten", e.Name)
			}
		})
		lasts, _, _ := l.History.Lasts(nil)
		if err != nil || n != all-forgotten || len(lasts) != n {
			t.Errorf("%d and %d last events, %v", n, len(lasts), err)
		}
		if _, err := l.History.LastOf(&objects[7]); !errors.Is(err, wal.ErrGone) {
			t.Errorf("the last event of a forgotten object: %v", err)
		}
		r := l.History.NewReader(1)
		defer r.Close()
		if read, err := r.Next(l.Keys.Last(), 1000); err != nil || len(read) != events || read[len(read)-1].Seq != all {
			t.Errorf("%d events to read, want %d, %v", len(read), events, err)
		}
	}
	check(l, all)
	for range 2 {
		must(t, l.Close(t.Context()))
		l = open(t, d, nil)
		check(l, all)
	}
	records := func() (n int) {
		target := l.Keys.Target("core/pods")
		err := l.History.Walk(func(e *segment.Entry, last wal.Last, _ string) {
			if e.Kind != record.Forgotten {
				return
			}
			if n++; last.Target != target {
				t.Errorf("a record of target %d, want %d", last.Target, target)
			}
		})
		if err != nil {
			t.Error(err)
		}
		return n
	}
	if n := records(); n != forgotten {
		t.Errorf("%d records of forgotten objects, want %d", n, forgotten)
	}
	for range 2 { // what says that they are forgotten goes after the events
		must(t, l.Compactor.Compact(keepNothing{func() uint64 { return math.MaxUint64 }}, 100))
		check(l, all-forgotten)
	}
	if n := records(); n != 0 {
		t.Errorf("%d records of forgotten objects are left", n)
	}
	l.Abandon()
}
