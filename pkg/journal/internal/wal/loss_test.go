package wal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// TestCutOfWhatWasSynced: sinks may have what a killed process had synced, so a cut of it is declared.
func TestCutOfWhatWasSynced(t *testing.T) {
	base := disktest.New(1)
	l, err := wal.Open(base, options())
	must(t, err)
	must(t, errors.Join(l.Writer.Append(t.Context(), []event.Event{object("a", event.Added, 1), object("b", event.Added, 2)}), l.Syncer.Sync(t.Context())))
	l.Abandon()
	const name = "00000001.00000000.log"
	for cut := range len(base.Content(name)) {
		d := base.Clone(1)
		d.Cut(name, cut+1)
		l, err := wal.Open(d, options())
		must(t, err)
		if !l.Void {
			t.Errorf("%d bytes cut off, and no loss is declared", cut+1)
		}
		l.Abandon()
		if _, declared := inspect(t, d); declared {
			t.Fatal("a further start declares a loss")
		}
	}
}

// TestDamageIsRemembered: a sink that comes back later learns whether events are missing because of
// damage.
func TestDamageIsRemembered(t *testing.T) {
	d := smallLog(t, true)
	all := segments(t, d)
	must(t, d.Remove(all[len(all)-2]))
	var damage uint64
	for start := range 3 {
		l, err := wal.Open(d, smallOptions())
		must(t, err)
		if start == 0 {
			damage = l.Keys.Last()
		}
		if l.Damage != damage || l.Void != (start == 0) {
			t.Errorf("start %d: damage up to %d, want %d; void: %t", start, l.Damage, damage, l.Void)
		}
		must(t, l.Writer.Append(t.Context(), []event.Event{object("z", event.Added, uint64(start+1))}))
		must(t, l.Close(t.Context()))
	}
}

// TestLossIsDeclaredOnce: a later start that compaction has moved into the segment of the one that has found a loss
// declares none.
func TestLossIsDeclaredOnce(t *testing.T) {
	d := smallLog(t, true)
	names, err := d.Names()
	for _, name := range names {
		if err == nil && name != "synced" {
			err = d.Remove(name)
		}
	}
	must(t, err)
	for start := range 3 {
		l, err := wal.Open(d, smallOptions())
		must(t, err)
		if l.Void != (start == 0) {
			t.Errorf("start %d: void: %t", start, l.Void)
		}
		for i := range 10 {
			err = errors.Join(err, l.Writer.Append(t.Context(), []event.Event{object("z", event.Added, uint64(i+1))}))
		}
		p := &policy{model: &model{gone: map[uint64]bool{}, dataGone: map[uint64]bool{}}, history: 1}
		must(t, errors.Join(err, l.Syncer.Sync(t.Context()), l.Compactor.Compact(p, 100), l.Close(t.Context())))
	}
}

// TestLossIsDeclaredThroughCrashes: a start that finds a loss may be interrupted at each call of the disk. A later one
// declares it.
func TestLossIsDeclaredThroughCrashes(t *testing.T) {
	for what, lose := range map[string]func(d *disktest.Disk, newest string){
		"a synced byte": func(d *disktest.Disk, newest string) { d.Flip(newest, 8*100) },
		"a header":      func(d *disktest.Disk, newest string) { d.Flip(newest, 8*20) },
		"the newest":    func(d *disktest.Disk, newest string) { _ = d.Remove(newest) },
		"an older one":  func(d *disktest.Disk, _ string) { _ = d.Remove("00000001.00000001.log") },
		"a long end": func(d *disktest.Disk, _ string) { // no crash leaves so much
			f, err := d.Create("00000063.00000000.log")
			if err == nil {
				_, err = f.WriteAt(make([]byte, 3<<20), 0)
			}
			must(t, err)
		},
	} {
		t.Run(what, func(t *testing.T) {
			for calls := 1; ; calls++ {
				d := smallLog(t, false)
				lose(d, slices.Max(segments(t, d)))
				d = d.Clone(uint64(calls))
				d.Set(disktest.Faults{PowerAfter: calls})
				l, err := wal.Open(d, smallOptions())
				interrupted := err != nil
				if interrupted {
					d.Restart()
					l, err = wal.Open(d, smallOptions())
				}
				must(t, err)
				valid := func(n wal.Named) bool { return n.Seq >= l.Damage }
				if !l.Void && (l.Damage == 0 || slices.ContainsFunc(l.Keys.All(record.Mark), valid)) {
					t.Errorf("interrupted at call %d: no loss is declared", calls)
				}
				l.Abandon()
				if !interrupted {
					return
				}
			}
		})
	}
}

// TestLastBeforeDamage: if damage has taken the last record of a key, the one before it is the last one, also for the
// target of the object and at a further start.
func TestLastBeforeDamage(t *testing.T) {
	const objects = 36
	d := disktest.New(1)
	l := open(t, d, nil)
	for round := range 4 {
		var err error
		for i := range objects {
			e := object(fmt.Sprint("n", i), event.Modified, uint64(objects*round+i+1))
			err = errors.Join(err, l.Writer.Append(t.Context(), []event.Event{e}))
		}
		must(t, errors.Join(err, l.Writer.Put(record.Cursor, "sink", fmt.Append(nil, round)), l.Syncer.Sync(t.Context())))
	}
	const newest = "00000003.00000000"
	must(t, errors.Join(l.Close(t.Context()), d.Remove(newest+".idx")))
	d.Cut(newest+".log", len(d.Content(newest+".log"))-200)
	for start := range 2 {
		l = open(t, d, nil)
		lasts, _, _ := l.History.Lasts(nil)
		restored := 0
		err := l.History.EachLast("core/pods", func(event.Event) { restored++ })
		if err != nil || l.Void != (start == 0) || len(lasts) != objects || restored != objects {
			t.Errorf("start %d: void: %t; %d last events, and %d of the target, want %d; %v", start, l.Void, len(lasts), restored, objects, err)
		}
		if c, _ := l.Keys.Get(record.Cursor, "sink"); string(c.Value) != "2" {
			t.Errorf("start %d: the sink has %q", start, c.Value)
		}
		l.Abandon()
	}
}

// TestCopyBehindALoss: a start that has found a loss may leave numbers of segments out. A copy of its log has no file that
// says what is synced, and lacks nothing.
func TestCopyBehindALoss(t *testing.T) {
	d := smallLog(t, true)
	d.Flip(slices.Max(segments(t, d)), 8*20)
	l, err := wal.Open(d, smallOptions())
	if err == nil {
		err = errors.Join(l.Writer.Append(t.Context(), []event.Event{object("z", event.Added, 100)}), l.Syncer.Sync(t.Context()))
	}
	if err != nil || !l.Void {
		t.Fatalf("void: %t, %v", l.Void, err)
	}
	l.Abandon()
	must(t, d.Remove("synced"))
	for start := range 2 {
		o := smallOptions()
		o.Copied = start == 0
		l, err := wal.Open(d, o)
		must(t, err)
		if z := object("z", event.Added, 100); l.Void || !l.Keys.Has(&z) {
			t.Errorf("start %d: void: %t; has the last event: %t", start, l.Void, l.Keys.Has(&z))
		}
		l.Abandon()
	}
}

// TestLossAfterAFailedSync: what a failed sync has left in memory only, and what a start that declares a loss shows, is
// durable once that start has ended.
func TestLossAfterAFailedSync(t *testing.T) {
	d := disktest.New(1)
	l := open(t, d, nil)
	d.Set(disktest.Faults{SyncFails: func(name string) bool { return strings.HasSuffix(name, ".log") }})
	appendHard(t, l, "a")
	<-l.Monitor.Failed()
	l.Abandon()
	d.Set(disktest.Faults{})
	a := object("a", event.Added, 1)
	for start := range 2 {
		l = open(t, d, func(o *wal.Options) { o.Stale = start == 0 })
		if _, err := l.History.LastOf(&a); err != nil {
			t.Errorf("start %d: the event that readers had: %v", start, err)
		}
		l.Abandon()
		d.PowerLoss()
		d.Restart()
	}
}

// TestNewestStartIsMissing: a copy may lack the newest segment, and have an older note of what was synced. That no index
// file has a start record tells. The one in the records does not hide it, also if the start is interrupted.
func TestNewestStartIsMissing(t *testing.T) {
	base := disktest.New(1)
	open(t, base, nil).Abandon()
	note := base.Content("synced")
	l := open(t, base, nil)
	err := errors.Join(l.Writer.Append(t.Context(), []event.Event{object("a", event.Added, 1)}), l.Syncer.Sync(t.Context()))
	l.Abandon()
	must(t, errors.Join(err, base.Remove("00000002.00000000.log"), base.Remove("synced")))
	f, err := base.Create("synced")
	if err == nil {
		_, err = f.WriteAt(note, 0)
	}
	must(t, err)
	for calls := 1; ; calls++ {
		d := base.Clone(uint64(calls))
		d.Set(disktest.Faults{PowerAfter: calls})
		l, err := wal.Open(d, options())
		interrupted := err != nil
		if interrupted {
			d.Restart()
			l, err = wal.Open(d, options())
		}
		must(t, err)
		if !l.Void && l.Damage == 0 {
			t.Errorf("interrupted at call %d: no loss is declared", calls)
		}
		l.Abandon()
		if !interrupted {
			return
		}
	}
}
