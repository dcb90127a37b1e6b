package wal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// TestFormatOfAnotherVersion: a log in another form is refused as it is. To take it for damage would remove it.
func TestFormatOfAnotherVersion(t *testing.T) {
	d := smallLog(t, true)
	for _, name := range segments(t, d) {
		const end = segment.HeaderSize - 4
		is := d.Content(name)[:segment.HeaderSize]
		want := bytes.Clone(is)
		want[7]--
		binary.LittleEndian.PutUint32(want[end:], record.Checksum(want[:end]))
		for bit := range 8 * len(is) {
			if (is[bit/8]^want[bit/8])>>(bit%8)&1 != 0 {
				d.Flip(name, bit)
			}
		}
	}
	before := d.Clone(1)
	if _, err := wal.Open(d, smallOptions()); !errors.Is(err, segment.ErrFormat) {
		t.Errorf("%v", err)
	}
	names, err := d.Names()
	must(t, err)
	for _, name := range names {
		if !bytes.Equal(d.Content(name), before.Content(name)) {
			t.Errorf("%s has changed", name)
		}
	}
}

// TestDamageKeepsWhatWasSkipped: sequences that were skipped before are not missing because of damage.
func TestDamageKeepsWhatWasSkipped(t *testing.T) {
	d, o := smallLog(t, true), smallOptions()
	l, err := wal.Open(d, o)
	must(t, err)
	must(t, errors.Join(l.Append(t.Context(), []event.Event{object("z", event.Added, 1)}), l.Sync(t.Context())))
	first := l.Last() + 1
	l.Abandon()
	o.Boot = "another boot"
	l, err = wal.Open(d, o)
	must(t, err)
	skipped := l.Skipped(first, l.Last())
	if skipped == 0 {
		t.Fatal("a start after a crash of the machine skips nothing")
	}
	last := l.Last()
	must(t, errors.Join(l.Append(t.Context(), []event.Event{object("z", event.Modified, 2)}), l.Close(t.Context())))
	must(t, d.Remove(slices.Min(segments(t, d))))
	l, err = wal.Open(d, o)
	must(t, err)
	if got := l.Skipped(first, last); !l.Void || got != skipped {
		t.Errorf("%d sequences were skipped, want %d; void: %t", got, skipped, l.Void)
	}
	l.Abandon()
}
