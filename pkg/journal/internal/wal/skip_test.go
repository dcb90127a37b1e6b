package wal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// missing counts the events that a reader of a whole log takes for lost before each event that is left.
func missing(t *testing.T, d *disktest.Disk) map[uint64]uint64 {
	t.Helper()
	for range 3 {
		l, err := wal.Open(d, smallOptions())
		if err != nil {
			t.Fatal(err)
		}
		r := l.NewReader(1)
		all, err := r.Next(l.Readable(), 1000)
		lost, next := map[uint64]uint64{}, uint64(1)
		for _, e := range all {
			if e.Seq > next {
				lost[e.Seq] = e.Seq - next - l.Skipped(next, e.Seq-1)
			}
			next = e.Seq + 1
		}
		r.Close()
		l.Abandon()
		if err == nil {
			return lost
		}
		if !errors.Is(err, wal.ErrDamaged) {
			t.Fatal(err)
		}
	}
	t.Fatal("damaged for ever")
	return nil
}

// TestDamagedStart: the sequences that a start without an end before it leaves out are no lost events, also if
// damage takes the record that says so, and the same number is lost for every later start.
func TestDamagedStart(t *testing.T) {
	const lives, events = 4, 3
	base := disktest.New(1)
	for life := range lives {
		l, err := wal.Open(base, smallOptions())
		for i := range events {
			if err == nil {
				e := object(fmt.Sprint("n", life, i), event.Added, uint64(life*events+i+1))
				err = l.Append(t.Context(), []event.Event{e})
			}
		}
		if err == nil {
			err = l.Sync(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		l.Abandon()
	}
	names, err := base.Names()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		for at := 0; at < len(base.Content(name)); at += step() {
			d := base.Clone(1)
			d.Flip(name, 8*at)
			first := missing(t, d)
			for before, n := range first {
				if n > events {
					t.Fatalf("byte %d of %s: %d events lost before %d", at, name, n, before)
				}
			}
			for range 2 {
				again := missing(t, d)
				for before, n := range first {
					if again[before] != n {
						t.Fatalf("byte %d of %s: %d events lost before %d, and %d at a later start", at, name, n, before, again[before])
					}
				}
			}
		}
	}
}
