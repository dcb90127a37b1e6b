package wal

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

const (
	// skipUnclean is how many sequences a start leaves out without a clean end before it: a sink
	// may have rows of events that are lost.
	skipUnclean = 1 << 24
	// skipStale is that of a log that may be old, or lacks its newest start: more than any process has appended
	// meanwhile. To be sure of what was lost twice, the time in microseconds is a bound, too.
	skipStale = 1 << 40
	// mostSkips bounds the ranges that a log remembers.
	mostSkips = 1000
)

// start is the value of a start record: of the newest one, as each has all that counts.
type start struct {
	Boot  string `json:"boot"`
	Skips []Skip `json:"skips,omitempty"`
	// Damage is the last sequence before the newest start that has found damage: no checkpoint from before it counts.
	// Checked is the segment of that start: which ones are missing before it is declared.
	Damage  uint64 `json:"damage,omitempty"`
	Checked uint32 `json:"checked,omitempty"`
	// Unsynced: the process syncs nothing behind this record.
	Unsynced bool `json:"unsynced,omitempty"`
}

// Open recovers the log in a directory, or begins one. The caller owns the directory, which must
// be of this log alone.
func Open(d disk.Dir, o Options) (*Log, error) {
	l := newLog(d, o)
	err := l.recover(false)
	if errors.Is(err, ErrDamaged) { // now all records are read
		l = newLog(d, o)
		err = l.recover(true)
	}
	if err == nil {
		err = l.syncAndSeal() // the start record, which declares the damage
	}
	for _, f := range l.cut {
		if err == nil {
			err = unlessFull(l.writeAgain(f))
		}
	}
	for _, name := range l.broken {
		if err == nil {
			err = errors.Join(disk.Remove(l.dir, name.Log()), disk.Remove(l.dir, name.Index()))
		}
	}
	if err == nil {
		err = l.dir.Sync() // the name of what says what is synced
	}
	if err != nil {
		l.closeFiles()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go l.keepSynced(ctx)
	return l, nil
}

// starting reports whether [Open] has yet to return: the record of this start may not be durable.
func (l *Log) starting() bool { return l.stop == nil }

// Read loads the log in a directory as it is, and changes nothing there. Nothing may be appended to it, and
// there is nothing to close.
func Read(d disk.Dir) (*Log, error) {
	l := newLog(readOnly{d}, Options{})
	all, err := l.find(false)
	if err != nil {
		return nil, err
	}
	all, _ = l.findEnd(all)
	return l, l.loadAll(all)
}

// readOnly is a directory of a log that is only read: what it does not need stays.
type readOnly struct{ disk.Dir }

func (readOnly) Remove(string) error { return nil }

// recover loads what is valid, and begins a segment with a start record. The error is [ErrDamaged] if all records must
// be read before, as some are missing. Damaged segments stay as they are until the start record is durable: if the
// process ends before, the next one finds the damage again.
func (l *Log) recover(verify bool) error {
	all, err := l.find(verify)
	if err != nil {
		return err
	}
	left, end := l.findEnd(all)
	if err := l.loadAll(left); err != nil {
		return err
	}
	before, clean := l.lastStart()
	damaged := verify || end.damaged || end.hole > before.Checked || l.options.Stale
	clean = clean && !damaged
	// The first start may have been interrupted before it had synced anything.
	isNew := len(left) == 0 && !end.odd && !damaged && (len(end.gone) == 0 || end.gone[0].Number == 1)
	l.Void = damaged || !isNew && l.mayLack(&before, clean, end.odd)
	switch {
	case l.Void && !verify:
		return ErrDamaged
	case l.Void: // what is behind the end says so, too
		for _, f := range end.gone {
			l.broken = append(l.broken, f.Name)
		}
		if n := len(left); n > 0 {
			left[n-1].damaged = true
		}
		end.gone = nil
	}
	if err := l.cutEnd(left, end.gone); err != nil {
		return err
	}
	l.skips = before.Skips[max(0, len(before.Skips)-mostSkips):]
	if l.Void || !isNew && !clean {
		l.skip()
	}
	if l.damage, l.checked = before.Damage, before.Checked; l.Void {
		l.damage = l.last
	}
	return l.start()
}

// skip leaves out the sequences that an earlier process may have used.
func (l *Log) skip() {
	to := l.last + skipUnclean
	if l.Void {
		to = max(l.last+skipStale, uint64(time.Now().UnixMicro()))
	}
	l.skips = append(l.skips, Skip{From: l.last + 1, To: to})
	l.last = to
}

// mayLack decides whether the end of the log says that synced records are missing. A power loss takes others,
// and explains an odd end; without syncs it may have taken what sinks have.
func (l *Log) mayLack(before *start, clean, odd bool) bool {
	switch samePower := before.Boot == l.options.Boot; {
	case before.Boot == "": // the start record is missing
		return true
	case before.Unsynced:
		return odd || l.options.Copied || !clean && !samePower
	default:
		return odd && (samePower || l.options.Copied)
	}
}

// cutEnd removes segments behind the end of the log, the newest first, so that a crash leaves no hole. Then it
// writes those again that may not be synced: bytes that a failed sync left in memory only are not relied on.
func (l *Log) cutEnd(left, gone []*found) error {
	for _, f := range slices.Backward(gone) {
		if err := errors.Join(disk.Remove(l.dir, f.Log()), disk.Remove(l.dir, f.Index()), l.dir.Sync()); err != nil {
			return err
		}
	}
	for _, f := range left {
		if f.index == nil {
			continue
		}
		if f.damaged {
			l.cut = append(l.cut, f.file)
		} else if err := l.writeAgain(f.file); err != nil {
			return err
		}
	}
	return nil
}

// writeAgain makes what counts of a segment durable.
func (l *Log) writeAgain(f *file) error {
	bytes, err := disk.Read(l.dir, f.Log(), 0, int(f.size))
	if err == nil {
		err = errors.Join(disk.Write(l.dir, f.Log(), bytes, true), l.dir.Sync())
	}
	if err != nil {
		return fmt.Errorf("recover %s: %w", f.Log(), err)
	}
	return nil
}

func (l *Log) loadAll(all []*found) error {
	for _, f := range all {
		if err := l.load(f); err != nil {
			return fmt.Errorf("load %s: %w", f.Log(), err)
		}
	}
	return nil
}

// load makes a segment part of the log, and applies its records.
func (l *Log) load(f *found) error {
	index, targets, named := f.index, f.targets, f.named
	if index == nil {
		var bytes []byte
		var err error
		if index, bytes, err = l.readIndex(f.file); err == nil {
			targets, named, err = contents(index, bytes)
		}
		if err != nil {
			return err
		}
		if f.begun != nil {
			named[f.begunAt] = f.begun // what was skipped
		}
	}
	l.last = max(l.last, f.First-1)
	for i := range index.Entries {
		e := &index.Entries[i]
		if e.Kind.Keyed() || named[i] != nil {
			l.apply(f.file, e, e.Offset, targets[i], named[i])
		}
	}
	l.add(f.file)
	return nil
}

// contents returns what the heads in an index file say of the entries: the targets of events, and
// other records.
func contents(index *segment.Index, bytes []byte) (targets []string, named []*Named, err error) {
	targets, named = make([]string, len(index.Entries)), make([]*Named, len(index.Entries))
	for i := range index.Parts {
		part := &index.Parts[i]
		heads, err := part.Heads(bytes[part.Offset:][:part.Length])
		if err != nil {
			return nil, nil, err
		}
		for _, h := range heads {
			if e := &index.Entries[h.Entry]; e.Kind.Keyed() {
				targets[h.Entry] = part.Target
			} else if named[h.Entry], err = parseNamed(e.Kind, h.Head); err != nil {
				return nil, nil, err
			}
		}
	}
	return targets, named, nil
}

func parseNamed(kind record.Kind, head []byte) (*Named, error) {
	name, value, err := record.ParseNamed(head)
	return &Named{Kind: kind, Name: strings.Clone(name), Value: slices.Clone(value)}, err
}

// lastStart returns the newest start record, and whether the log ends with a stop.
func (l *Log) lastStart() (s start, clean bool) {
	begun := l.named[l.hasher.Record(record.Start, "")]
	if begun == nil || json.Unmarshal(begun.Value, &s) != nil {
		return start{}, false
	}
	stop := l.table.get(l.hasher.Record(record.Stop, ""))
	return s, stop.exists() && (place{stop.Segment, int64(stop.Offset) + int64(stop.Size)}) == l.active().end()
}

// start begins a segment with a start record.
func (l *Log) start() error {
	if err := l.create(); err != nil {
		return err
	}
	l.synced = place{segment: l.active().Number - 1} // the new file has no durable name
	if l.Void {
		l.checked = l.active().Number
	}
	value, err := json.Marshal(start{
		Boot: l.options.Boot, Skips: l.skips, Damage: l.damage, Checked: l.checked, Unsynced: l.options.Sync == SyncNever,
	})
	if err != nil {
		return err
	}
	return l.put(record.Start, "", value, nil, 1)
}

// identify takes the id of the log from the segments. Those whose header is invalid are of the same
// log.
func (l *Log) identify(all []*found) error {
	var first *found
	for _, f := range all {
		switch {
		case f.headless:
		case first == nil:
			first, l.id, l.secret = f, f.ID, f.Secret
		case f.ID != l.id:
			return fmt.Errorf("%s and %s are of two journals; move the files of one of them away", first.Log(), f.Log())
		}
	}
	if first == nil {
		for _, id := range [][]byte{l.id[:], l.secret[:]} {
			if _, err := rand.Read(id); err != nil {
				return err
			}
		}
	}
	for _, f := range all {
		f.ID, f.Secret = l.id, l.secret
	}
	l.hasher = record.NewHasher(l.secret)
	return nil
}

// dropReplaced removes segments that one of a higher generation covers.
func (l *Log) dropReplaced(all []*found) (left []*found, err error) {
	slices.SortFunc(all, func(a, b *found) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(b.Generation, a.Generation))
	})
	for _, f := range all {
		covered := slices.ContainsFunc(left, func(by *found) bool {
			return by.Generation > f.Generation && f.Number <= by.Through
		})
		if !covered {
			left = append(left, f)
		} else if err := disk.Remove(l.dir, f.Log()); err != nil {
			return nil, err
		}
	}
	return left, nil
}
