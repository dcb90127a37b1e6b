package wal

import (
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
	r := recovery{options: o, store: &store{dir: d, unsynced: o.Unsynced, starting: true}}
	err := r.run(false)
	if errors.Is(err, ErrDamaged) { // now all records are read
		r = recovery{options: o, store: &store{dir: d, unsynced: o.Unsynced, starting: true}}
		err = r.run(true)
	}
	if err == nil {
		err = r.declare()
	}
	if err != nil {
		if r.log != nil {
			r.log.Syncer.closeFiles()
		}
		return nil, err
	}
	r.log.Syncer.begin()
	return r.log, nil
}

// Read loads the log in a directory as it is, and changes nothing there. Nothing may be appended to it, and
// there is nothing to close.
func Read(d disk.Dir) (*Log, error) {
	r := recovery{store: &store{dir: readOnly{d}}}
	left, _, err := r.find(false)
	if err == nil {
		err = r.load(left)
	}
	return r.log, err
}

// readOnly is a directory of a log that is only read: what it does not need stays.
type readOnly struct{ disk.Dir }

func (readOnly) Remove(string) error { return nil }

// recovery makes a log of the files in a directory.
type recovery struct {
	options Options
	store   *store
	log     *Log
	checked uint32         // see start
	broken  []segment.Name // segments of which nothing counts, to be removed when that is declared
	cut     []*file        // those of which the end does not count, to be written again then
}

// find returns the segments that count, and makes an empty log of their name.
func (r *recovery) find(verify bool) (left []*found, end ending, err error) {
	s := survey{dir: r.store.dir}
	all, err := s.find(verify)
	if err != nil {
		return nil, end, err
	}
	left, end = s.findEnd(all)
	r.log, r.broken = newLog(r.store, s.id, s.secret, r.options), end.broken
	return left, end, nil
}

// run loads what is valid, and begins a segment with a start record. The error is [ErrDamaged] if all records must
// be read before, as some are missing. Damaged segments stay as they are until the start record is durable: if the
// process ends before, the next one finds the damage again.
func (r *recovery) run(verify bool) error {
	left, end, err := r.find(verify)
	if err == nil {
		err = r.load(left)
	}
	if err != nil {
		return err
	}
	before, clean := r.lastStart()
	damaged := verify || end.damaged || end.hole > before.Checked || r.options.Stale
	clean = clean && !damaged
	// The first start may have been interrupted before it had synced anything.
	isNew := len(left) == 0 && !end.odd && !damaged && (len(end.gone) == 0 || end.gone[0].Number == 1)
	void := damaged || !isNew && r.mayLack(&before, clean, end.odd)
	switch {
	case void && !verify:
		return ErrDamaged
	case void: // what is behind the end says so, too
		for _, f := range end.gone {
			r.broken = append(r.broken, f.Name)
		}
		if n := len(left); n > 0 {
			left[n-1].damaged = true
		}
		end.gone = nil
	}
	if err := r.cutEnd(left, end.gone); err != nil {
		return err
	}
	l := r.log
	l.Void, l.skips = void, before.Skips[max(0, len(before.Skips)-mostSkips):]
	if void || !isNew && !clean {
		r.skip()
	}
	if l.Damage, r.checked = before.Damage, before.Checked; void {
		l.Damage = l.Keys.last
	}
	return r.start()
}

// declare makes the start record durable, and then removes what that says to be lost.
func (r *recovery) declare() error {
	if err := r.log.Syncer.syncAndSeal(); err != nil {
		return err
	}
	for _, f := range r.cut {
		if err := r.writeAgain(f); unlessFull(err) != nil {
			return err
		}
	}
	for _, name := range r.broken {
		if err := r.store.remove(name); err != nil {
			return err
		}
	}
	return r.store.dir.Sync() // the name of what says what is synced
}

// skip leaves out the sequences that an earlier process may have used.
func (r *recovery) skip() {
	l := r.log
	to := l.Keys.last + skipUnclean
	if l.Void {
		to = max(l.Keys.last+skipStale, uint64(time.Now().UnixMicro()))
	}
	l.skips = append(l.skips, Skip{From: l.Keys.last + 1, To: to})
	l.Keys.last = to
}

// mayLack decides whether the end of the log says that synced records are missing. A power loss takes others,
// and explains an odd end; without syncs it may have taken what sinks have.
func (r *recovery) mayLack(before *start, clean, odd bool) bool {
	switch samePower := before.Boot == r.options.Boot; {
	case before.Boot == "": // the start record is missing
		return true
	case before.Unsynced:
		return odd || r.options.Copied || !clean && !samePower
	default:
		return odd && (samePower || r.options.Copied)
	}
}

// cutEnd removes segments behind the end of the log, the newest first, so that a crash leaves no hole. Then it
// writes those again that may not be synced: bytes that a failed sync left in memory only are not relied on.
func (r *recovery) cutEnd(left, gone []*found) error {
	for _, f := range slices.Backward(gone) {
		if err := errors.Join(r.store.remove(f.Name), r.store.dir.Sync()); err != nil {
			return err
		}
	}
	for _, f := range left {
		if f.index == nil {
			continue
		}
		if f.damaged {
			r.cut = append(r.cut, f.file)
		} else if err := r.writeAgain(f.file); err != nil {
			return err
		}
	}
	return nil
}

// writeAgain makes what counts of a segment durable.
func (r *recovery) writeAgain(f *file) error {
	bytes, err := disk.Read(r.store.dir, f.Log(), 0, int(f.size))
	if err == nil {
		err = errors.Join(disk.Write(r.store.dir, f.Log(), bytes, true), r.store.dir.Sync())
	}
	if err != nil {
		return fmt.Errorf("recover %s: %w", f.Log(), err)
	}
	return nil
}

// load makes segments part of the log, and applies their records.
func (r *recovery) load(all []*found) error {
	for _, f := range all {
		if err := r.loadOne(f); err != nil {
			return fmt.Errorf("load %s: %w", f.Log(), err)
		}
	}
	return nil
}

func (r *recovery) loadOne(f *found) error {
	index, targets, named := f.index, f.targets, f.named
	if index == nil {
		var bytes []byte
		var err error
		if index, bytes, err = r.log.segments.readIndex(f.file); err == nil {
			targets, named, err = contents(index, bytes)
		}
		if err != nil {
			return err
		}
		if f.begun != nil {
			named[f.begunAt] = f.begun // what was skipped
		}
	}
	keys := r.log.Keys
	keys.last = max(keys.last, f.First-1)
	for i := range index.Entries {
		e := &index.Entries[i]
		if e.Kind.Keyed() || named[i] != nil {
			keys.apply(f.file, e, e.Offset, targets[i], named[i])
		}
	}
	r.log.segments.add(f.file)
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
func (r *recovery) lastStart() (s start, clean bool) {
	keys := r.log.Keys
	begun := keys.named[keys.hasher.Record(record.Start, "")]
	if begun == nil || json.Unmarshal(begun.Value, &s) != nil {
		return start{}, false
	}
	stop := keys.table.get(keys.hasher.Record(record.Stop, ""))
	return s, stop.exists() && (place{stop.Segment, int64(stop.Offset) + int64(stop.Size)}) == r.log.segments.end()
}

// start begins a segment with a start record.
func (r *recovery) start() error {
	l, least := r.log, uint32(0)
	for _, name := range r.broken {
		least = max(least, name.Number+1)
	}
	if err := l.segments.create(l.Keys.last+1, least); err != nil {
		return err
	}
	number := l.segments.active().Number
	l.Barrier.synced = place{segment: number - 1} // the new file has no durable name
	if l.Void {
		r.checked = number
	}
	value, err := json.Marshal(start{
		Boot: r.options.Boot, Skips: l.skips, Damage: l.Damage, Checked: r.checked, Unsynced: r.options.Unsynced,
	})
	if err != nil {
		return err
	}
	return l.Writer.put(record.Start, "", value, nil, 1)
}
