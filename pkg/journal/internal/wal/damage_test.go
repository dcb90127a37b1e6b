package wal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

func smallOptions() wal.Options {
	o := options()
	o.SegmentBytes, o.TailBytes = 760, 1
	return o
}

// smallLog returns a disk with a log of some segments, of which one was compacted.
func smallLog(t *testing.T, clean bool) *disktest.Disk {
	t.Helper()
	d := disktest.New(1)
	l, err := wal.Open(d, smallOptions())
	for i := range 16 {
		if err == nil {
			err = l.Writer.Append(t.Context(), []event.Event{object(fmt.Sprint("n", i%5), event.Added, uint64(i+1))})
		}
		if err == nil && i%3 == 0 {
			err = l.Writer.Put(record.Mark, fmt.Sprint("target", i%2), fmt.Appendf(nil, "mark%d", i))
		}
		if err == nil && i%4 == 0 {
			err = l.Letters.Put(t.Context(), "sink", fmt.Appendf(nil, "letter%d", i))
		}
		if err == nil && i == 9 {
			err = errors.Join(l.Syncer.Sync(t.Context()), l.Letters.Drop(t.Context(), "sink", 1))
		}
		if err == nil && i == 14 { // one event and one mark are not synced
			err = l.Syncer.Sync(t.Context())
		}
		if err == nil && i == 9 { // all is sealed but the active segment
			err = l.Compactor.Compact(&policy{model: &model{gone: map[uint64]bool{}, dataGone: map[uint64]bool{}}, history: 1}, 100)
		}
	}
	if clean && err == nil {
		err = l.Close(t.Context())
	} else if err == nil {
		l.Abandon()
	}
	must(t, err)
	return d
}

// content is what a log has, each record under a name.
type content map[string]string

// read reads all of a log. Each record that it returns is whole.
func read(t *testing.T, l *wal.Log) (c content, err error) {
	t.Helper()
	c = content{}
	r := l.History.NewReader(1)
	defer r.Close()
	entries, err := r.Next(l.Barrier.Readable(), 1000)
	for _, e := range entries {
		c[fmt.Sprint("event ", e.Seq)] = fmt.Sprintf("%+v", e.Event)
	}
	for _, n := range l.Keys.All(record.Mark) {
		if n.Name != "" {
			c["mark "+n.Name] = string(n.Value)
		}
	}
	err = errors.Join(err, l.Letters.Each(t.Context(), "sink", func(number uint64, text []byte) error {
		c[fmt.Sprint("letter ", number)] = string(text)
		return nil
	}))
	return c, errors.Join(err, l.History.EachLast("core/pods", func(e event.Event) {
		c["last "+e.Name] = e.ID
		last, lastErr := l.History.LastOf(&e)
		if err = errors.Join(err, lastErr); lastErr == nil && last.Event.ID != e.ID {
			t.Errorf("the last event of %s is %s and %s", e.Name, e.ID, last.Event.ID)
		}
	}), err)
}

// inspect opens a log until it is whole, and returns its content, and whether it declared a loss.
func inspect(t *testing.T, d *disktest.Disk) (c content, declared bool) {
	t.Helper()
	for range 3 {
		l, err := wal.Open(d, smallOptions())
		must(t, err)
		declared = declared || l.Void
		c, err = read(t, l)
		l.Abandon()
		if err == nil {
			return c, declared
		}
		if !errors.Is(err, wal.ErrDamaged) {
			t.Fatal(err)
		}
	}
	t.Fatal("damaged for ever")
	return nil, false
}

// checkDamaged compares a damaged log with the whole one: what it has is right, and it has all but
// what may be missing, or declares the loss.
func checkDamaged(t *testing.T, what string, d *disktest.Disk, whole content, mayMiss func(name string) bool) {
	t.Helper()
	c, declared := inspect(t, d)
	for name, value := range c {
		if strings.HasPrefix(name, "event") && whole[name] != value {
			t.Fatalf("%s: %s is %s, want %s", what, name, value, whole[name])
		}
	}
	if !declared {
		for name, value := range whole {
			if c[name] != value && !mayMiss(name) {
				t.Fatalf("%s: %s is %q, want %q, without a word", what, name, c[name], value)
			}
		}
	}
	if !declared { // a reader may find it later
		c, _ = inspect(t, d)
	}
	if again, declaredAgain := inspect(t, d); declaredAgain || !maps.Equal(again, c) {
		t.Fatalf("%s: a further start declares a loss: %v; differs:\n%s", what, declaredAgain, cmp.Diff(c, again))
	}
}

// step is 1 in long runs: each byte is changed then.
func step() int {
	if os.Getenv("INFORMD_WAL_SEEDS") != "" {
		return 1
	}
	return 5
}

// segments are the names of a log's segments, in order.
func segments(t *testing.T, d *disktest.Disk) []string {
	t.Helper()
	names, err := d.Names()
	must(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	slices.Sort(names)
	return names
}

func nothing(string) bool { return false }

// The last record of a process that was killed may be cut off.
func lastRecord(name string) bool {
	return name == "event 16" || name == "last n0" || name == "mark target1"
}

// TestIndexDamagedLater: an index file is read again while the log is open. A byte that has changed
// since the start is found, and the next start loses nothing.
func TestIndexDamagedLater(t *testing.T) {
	base := smallLog(t, true)
	whole, _ := inspect(t, base.Clone(1))
	names, err := base.Names()
	must(t, err)
	found := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".idx") {
			continue
		}
		for at := 0; at < len(base.Content(name)); at += step() {
			d := base.Clone(uint64(at))
			l, err := wal.Open(d, smallOptions())
			must(t, err)
			d.Flip(name, 8*at+at%8)
			last := 0
			err = l.History.EachLast("core/pods", func(e event.Event) {
				last++
				if whole["last "+e.Name] != e.ID {
					t.Errorf("byte %d of %s: the last event of %s is %s, want %s", at, name, e.Name, e.ID, whole["last "+e.Name])
				}
			})
			l.Abandon()
			switch {
			case errors.Is(err, wal.ErrDamaged):
				found++
			case err != nil:
				t.Fatal(err)
			case last != 5:
				t.Errorf("byte %d of %s: %d objects, want 5", at, name, last)
			}
			if c, declared := inspect(t, d); declared || !maps.Equal(c, whole) {
				t.Fatalf("byte %d of %s: declares a loss: %v; differs:\n%s", at, name, declared, cmp.Diff(whole, c))
			}
		}
	}
	if found == 0 {
		t.Error("no head was read again")
	}
}

// A cut of the newest file leaves a prefix, and is declared if it takes what was synced.
func TestCut(t *testing.T) {
	for _, clean := range []bool{true, false} {
		base := smallLog(t, clean)
		whole, _ := inspect(t, base.Clone(1))
		newest := slices.Max(segments(t, base))
		for _, name := range []string{newest, strings.Replace(newest, ".log", ".idx", 1)} {
			for cut := 0; cut < len(base.Content(name)); cut += step() {
				d := base.Clone(uint64(cut))
				d.Cut(name, cut+1)
				mayMiss := lastRecord
				if clean {
					mayMiss = nothing
				}
				checkDamaged(t, fmt.Sprintf("%d bytes cut off %s", cut+1, name), d, whole, mayMiss)
			}
		}
	}
}

// Without syncs a power loss may take anything. The log opens nevertheless, returns nothing wrong,
// and says that it may lack events.
func TestPowerLossWithoutSyncs(t *testing.T) {
	for seed := range uint64(200 / step()) {
		d := disktest.New(seed)
		o := smallOptions()
		o.Unsynced = true
		seen := map[uint64]string{}
		for life := range 8 {
			l, err := wal.Open(d, o)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if life > 0 && !l.Void {
				t.Fatalf("seed %d: no loss is declared", seed)
			}
			r := l.History.NewReader(1)
			entries, err := r.Next(l.Barrier.Readable(), 1000)
			r.Close()
			for _, e := range entries {
				if seen[e.Seq] != e.Event.ID {
					t.Fatalf("seed %d: %s at %d, want %q", seed, e.Event.ID, e.Seq, seen[e.Seq])
				}
			}
			for i := 0; err == nil && i < 5+int(seed%40); i++ {
				e := object(fmt.Sprint("n", i%5), event.Modified, uint64(1000*life+i))
				err = l.Writer.Append(t.Context(), []event.Event{e})
				seen[l.Keys.Last()] = e.ID
				if i%9 == 3 && err == nil {
					err = errors.Join(l.Syncer.Sync(t.Context()), l.Compactor.Compact(&policy{model: &model{gone: map[uint64]bool{}, dataGone: map[uint64]bool{}}, history: 2}, 100))
				}
			}
			if err != nil && !errors.Is(err, wal.ErrDamaged) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			l.Abandon()
			if life%3 < 2 {
				d.PowerLoss()
				d.Restart()
			}
			o.Boot = fmt.Sprint(life)
		}
	}
}

// Many changed bytes, and missing files, lose what they lose; the log opens and says so.
func TestMuchDamage(t *testing.T) {
	for seed := range uint64(1000 / step()) {
		s := rand.New(rand.NewPCG(seed, 1))
		base := smallLog(t, seed%2 == 0)
		whole, _ := inspect(t, base.Clone(seed))
		names, err := base.Names()
		must(t, err)
		slices.Sort(names)
		mayMiss := func(string) bool { return true }
		for range 1 + s.IntN(20) {
			name := names[s.IntN(len(names))]
			base.Flip(name, s.IntN(8*len(base.Content(name))))
		}
		if s.IntN(3) == 0 {
			base.Cut(names[s.IntN(len(names))], s.IntN(500))
		}
		if s.IntN(5) == 0 {
			must(t, base.Remove(names[s.IntN(len(names))]))
		}
		checkDamaged(t, fmt.Sprint("seed ", seed), base, whole, mayMiss)
	}
}

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
	must(t, errors.Join(l.Writer.Append(t.Context(), []event.Event{object("z", event.Added, 1)}), l.Syncer.Sync(t.Context())))
	first := l.Keys.Last() + 1
	l.Abandon()
	o.Boot = "another boot"
	l, err = wal.Open(d, o)
	must(t, err)
	skipped := l.Skipped(first, l.Keys.Last())
	if skipped == 0 {
		t.Fatal("a start after a crash of the machine skips nothing")
	}
	last := l.Keys.Last()
	must(t, errors.Join(l.Writer.Append(t.Context(), []event.Event{object("z", event.Modified, 2)}), l.Close(t.Context())))
	must(t, d.Remove(slices.Min(segments(t, d))))
	l, err = wal.Open(d, o)
	must(t, err)
	if got := l.Skipped(first, last); !l.Void || got != skipped {
		t.Errorf("%d sequences were skipped, want %d; void: %t", got, skipped, l.Void)
	}
	l.Abandon()
}
