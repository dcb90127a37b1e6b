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

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/keys"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

const (
	// recoveryFile is there, and empty, from when damage is found until the start record that says so is
	// durable: the damage is gone from the segments before. A start that finds it reads all records.
	recoveryFile = "recovery"
	// skipUnclean is how many sequences a start leaves out without a clean end before it: a sink
	// may have rows of events that are lost.
	skipUnclean = 1 << 24
	// skipStale is that of a copy that may be old: more than any leader appends meanwhile.
	skipStale = 1 << 40
	// mostSkips bounds the ranges that a log remembers.
	mostSkips = 1000
)

// start is the value of a start record: of the newest one, as each has all that counts.
type start struct {
	Boot  string `json:"boot"`
	Skips []Skip `json:"skips,omitempty"`
	// Damage is the last sequence before the newest start that has found damage.
	Damage uint64 `json:"damage,omitempty"`
	// Unsynced: the process syncs nothing behind this record.
	Unsynced bool `json:"unsynced,omitempty"`
}

// Open recovers the log in a directory, or begins one. The caller owns the directory, which must
// be of this log alone.
func Open(d disk.Dir, o Options) (*Log, error) {
	l := newLog(d, o)
	err := l.recover()
	if errors.Is(err, ErrDamaged) { // now all records are read
		l = newLog(d, o)
		err = l.recover()
	}
	if err != nil {
		l.closeFiles()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go l.keepSynced(ctx)
	if err = l.Sync(ctx); err == nil { // the start record
		err = disk.Remove(l.dir, recoveryFile)
	}
	if err == nil {
		err = l.dir.Sync()
	}
	if err != nil {
		l.Abandon()
		return nil, err
	}
	if never, ok := l.dir.(*unsynced); ok {
		never.started.Store(true)
	}
	return l, nil
}

// Read loads the log in a directory as it is, and changes nothing there. Nothing may be appended to it, and
// there is nothing to close.
func Read(d disk.Dir) (*Log, error) {
	l := newLog(disk.ReadOnly{Dir: d}, Options{})
	all, _, err := l.find()
	if err != nil {
		return nil, err
	}
	all, _ = l.cutEnd(all)
	return l, l.loadAll(all)
}

// recover loads what is valid, and writes each segment again that is not known to be synced: bytes
// that a failed or missing sync left in memory only are not relied on.
func (l *Log) recover() error {
	all, verified, err := l.find()
	if err != nil {
		return err
	}
	lacksEnd := l.lacksEnd(all)
	l.Void = l.Void || lacksEnd || l.options.Stale
	all, cut := l.cutEnd(all)
	// The first start may have been interrupted before it had synced anything.
	isNew := len(all) == 0 && !cut.odd && !lacksEnd && (len(cut.gone) == 0 || cut.gone[0].Number == 1)
	l.Void = l.Void || slices.ContainsFunc(all, (*found).damaged)
	if l.Void && !verified {
		return errors.Join(ErrDamaged, l.noteDamage())
	}
	if err := l.loadAll(all); err != nil {
		return err
	}
	before, clean := l.lastStart()
	clean = clean && !lacksEnd && !l.options.Stale
	l.Void = l.Void || !isNew && l.mayLack(&before, clean, cut.odd)
	if l.Void {
		if err := l.noteDamage(); err != nil {
			return err
		}
	}
	if err := l.rewriteUnsealed(all, cut); err != nil {
		return err
	}
	l.skips = before.Skips[max(0, len(before.Skips)-mostSkips):]
	if !isNew && !clean {
		l.skip()
	}
	if l.damage = before.Damage; l.Void {
		l.damage = l.last
	}
	return l.start()
}

// skip leaves out the sequences that an earlier process may have used.
func (l *Log) skip() {
	n := uint64(skipUnclean)
	if l.options.Stale {
		n = skipStale
	}
	l.skips = append(l.skips, Skip{From: l.last + 1, To: l.last + n})
	l.last += n
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

// noteDamage makes the recovery file. A log that is only read leaves that to the start that finds the damage.
func (l *Log) noteDamage() error {
	if _, reads := l.dir.(disk.ReadOnly); reads {
		return nil
	}
	if err := disk.Write(l.dir, recoveryFile, nil); err != nil {
		return err
	}
	return l.dir.Sync()
}

// rewriteUnsealed writes segments again, and removes those behind the end of the log.
func (l *Log) rewriteUnsealed(all []*found, cut cutOff) error {
	for i, f := range all {
		through := f.Through
		if i == len(all)-1 && len(cut.gone) > 0 {
			through, f.whole = cut.gone[len(cut.gone)-1].Through, false // it covers those, in any crash
		}
		if f.whole && f.missing == 0 {
			continue
		}
		if err := l.rewriteFound(f, through); err != nil {
			return fmt.Errorf("recover %s: %w", f.Log(), err)
		}
	}
	for _, f := range slices.Backward(cut.gone) {
		if err := errors.Join(disk.Remove(l.dir, f.Log()), disk.Remove(l.dir, f.Index())); err != nil {
			return err
		}
	}
	if err := l.removeReplaced(); err != nil {
		return err
	}
	return l.dir.Sync()
}

func (l *Log) rewriteFound(f *found, through uint32) (err error) {
	index := f.index
	if f.index = nil; index == nil {
		if index, err = l.readIndex(f.file); err != nil {
			return err
		}
	}
	l.synced = f.end() // a crash may take what is behind it
	s := &source{file: f.file, index: index, fates: make([]Fate, len(index.Entries)), heads: l.headsToKeep(f.file, index)}
	for i := range s.fates {
		if index.Entries[i].Kind == record.Synced {
			s.fates[i] = Drop // it names an offset in this file
		}
	}
	return l.rewrite([]*source{s}, f.Number-f.missing, through, nil)
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
		bytes, err := disk.Read(l.dir, f.Index(), 0, -1)
		if err != nil {
			return err
		}
		if index, err = segment.ParseIndex(bytes, f.Header); err != nil {
			return err
		}
		if targets, named, err = contents(index, bytes); err != nil {
			return err
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
	begun := l.named[l.hasher.Record(byte(record.Start), "")]
	if begun == nil || json.Unmarshal(begun.Value, &s) != nil {
		return start{}, false
	}
	stop := l.table.Get(l.hasher.Record(byte(record.Stop), ""))
	return s, stop != nil && (place{stop.Segment, int64(stop.Offset) + int64(stop.Size)}) == l.active().end()
}

// start begins a segment with a start record.
func (l *Log) start() error {
	if err := l.create(); err != nil {
		return err
	}
	l.synced = place{segment: l.active().Number - 1} // the new file has no durable name
	l.noted = l.synced
	value, err := json.Marshal(start{Boot: l.options.Boot, Skips: l.skips, Damage: l.damage, Unsynced: l.options.Sync == SyncNever})
	if err != nil {
		return err
	}
	if err := l.put(record.Start, "", value, nil, 1); err != nil {
		return err
	}
	if l.Void {
		return l.put(record.Mark, "", nil, nil, 1)
	}
	return nil
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
	l.hasher = keys.NewHasher(l.secret)
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
