package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// found is a segment at the start.
type found struct {
	*file

	headless bool   // its header is invalid
	whole    bool   // its index file is valid, and all of its records, as far as they were read
	synced   int64  // what was there once, in bytes
	last     uint64 // its last sequence, or the one before it
	bad      []part // what is invalid, in order
	missing  uint32 // segments before it
	// targets and named belong to the records of the index, if that was read from the records.
	targets []string
	named   []*Named
	strings record.Strings
}

// part is a range of bytes of a segment.
type part struct{ from, to int64 }

// find reads the headers and index files of all segments, in order, and scans those without a valid
// index file. It removes temporary files, segments that were replaced, and their index files. Verify
// is true if it has scanned all.
func (l *Log) find() (all []*found, verify bool, err error) {
	names, err := l.dir.Names()
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		n, ok := segment.ParseName(name)
		switch {
		case name == recoveryFile:
			verify, l.Void = true, true
		case strings.HasSuffix(name, disk.TemporarySuffix):
			err = errors.Join(err, disk.Remove(l.dir, name))
		case ok && name == n.Log():
			f, readErr := l.readHeader(n)
			all, err = append(all, f), errors.Join(err, readErr)
		}
	}
	if err == nil {
		all, err = l.dropReplaced(all)
	}
	if err == nil {
		err = errors.Join(l.dropIndexes(names, all), l.identify(all))
	}
	if err == nil {
		err = l.compareNoted(all)
	}
	if err != nil {
		return nil, false, err
	}
	next := uint64(1)
	for i, f := range all {
		if f.headless {
			f.First = next
		}
		if f.headless && f.Generation > 0 && i+1 < len(all) {
			f.Through = all[i+1].Number - 1 // it is likely that it replaced those
		}
		if err := l.inspect(f, verify); err != nil {
			return nil, false, fmt.Errorf("read %s: %w", f.Log(), err)
		}
		next = max(next, f.last+1)
	}
	return all, verify, nil
}

// dropIndexes removes index files without a segment.
func (l *Log) dropIndexes(names []string, all []*found) error {
	for _, name := range names {
		n, ok := segment.ParseName(name)
		if !ok || slices.ContainsFunc(all, func(f *found) bool { return f.Name == n }) {
			continue
		}
		if err := disk.Remove(l.dir, n.Index()); err != nil {
			return err
		}
	}
	return nil
}

// readHeader reads the header of a segment.
func (l *Log) readHeader(n segment.Name) (*found, error) {
	bytes, err := disk.Read(l.dir, n.Log(), 0, segment.HeaderSize)
	if err != nil {
		return nil, err
	}
	header, err := segment.ParseHeader(bytes, n)
	if err != nil {
		header = segment.Header{Name: n, Through: n.Number}
	}
	return &found{file: &file{Header: header}, headless: err != nil}, nil
}

// inspect reads the index file of a segment. Without a valid one, or if verify is set, it reads all
// records.
func (l *Log) inspect(f *found, verify bool) error {
	open, err := l.dir.Open(f.Log())
	if err != nil {
		return err
	}
	defer open.Close() //nolint:errcheck // it was only read
	if f.size, err = open.Size(); err != nil {
		return err
	}
	f.last = f.First - 1
	var index *segment.Index
	if content, err := disk.Read(l.dir, f.Index(), 0, -1); err == nil {
		index, _ = segment.ParseIndex(content, f.Header) // without one it is made again
	}
	if index != nil {
		f.synced = int64(index.Size)
		f.last = lastOf(index, f.last)
		if f.synced <= f.size && !f.headless {
			f.size, f.parts, f.sum, f.whole = f.synced, index.Parts, index.Sum, true
		}
	} else if f.Generation > 0 {
		f.synced = f.size // it had its name only then
	}
	if f.whole && !verify {
		return nil
	}
	if err := l.scan(f); err != nil {
		return err
	}
	same := func(a, b segment.Entry) bool {
		return a.Key == b.Key && a.Seq == b.Seq && a.Offset == b.Offset && a.Size == b.Size
	}
	if f.whole = f.whole && len(f.bad) == 0 && slices.EqualFunc(f.index.Entries, index.Entries, same); f.whole {
		f.index, f.targets, f.named = nil, nil, nil
	} else {
		f.last = lastOf(f.index, f.last)
	}
	return nil
}

// lastOf is the last sequence of an index, at least least.
func lastOf(x *segment.Index, least uint64) uint64 {
	if n := len(x.Entries); n > 0 {
		return max(least, x.Entries[n-1].Seq)
	}
	return least
}

// scan reads all records of a segment, and notes which bytes are none.
func (l *Log) scan(f *found) error {
	bytes, err := disk.Read(l.dir, f.Log(), 0, int(f.size))
	if err != nil {
		return err
	}
	f.index = segment.NewIndex(f.Header, nil)
	at := min(segment.HeaderSize, int64(len(bytes)))
	if f.headless {
		f.bad = append(f.bad, part{0, at})
	}
	for at < int64(len(bytes)) {
		r, size, err := record.Parse(bytes[at:])
		if err == nil {
			err = l.addScanned(f, &r, at)
		}
		switch n := len(f.bad); {
		case err == nil:
			at += int64(size)
			continue
		case n > 0 && f.bad[n-1].to == at:
			f.bad[n-1].to++ // each byte may begin the next record
		default:
			f.bad = append(f.bad, part{at, at + 1})
		}
		at++
	}
	return nil
}

// addScanned adds a record at an offset to an index.
func (l *Log) addScanned(f *found, r *record.Record, at int64) error {
	e := segment.Entry{Seq: r.Seq, Time: r.Time, Size: uint32(r.Size()), Count: r.Count, Kind: r.Kind, Flags: r.Flags}
	target, namespace, named := "", "", (*Named)(nil)
	if r.Kind.Keyed() {
		parsed, err := record.ParseEvent(&record.Record{Time: r.Time, Head: r.Head}, &f.strings)
		if err != nil {
			return err
		}
		e.Key, target, namespace = l.hasher.Event(&parsed), parsed.Target, parsed.Namespace
	} else {
		var err error
		if named, err = parseNamed(r.Kind, r.Head); err != nil {
			return err
		}
		e.Key = l.hasher.Record(byte(r.Kind), named.Name)
	}
	f.index.Size = uint32(at)
	f.index.Add(e, namespace, r.Head)
	f.targets, f.named = append(f.targets, target), append(f.named, named)
	return nil
}

// cutOff is what lies behind the end of the log.
type cutOff struct {
	gone []*found // segments
	odd  bool     // it is more than a killed process leaves
}

// shortWrite is how much of a write a killed process may have left at the end of the log.
const shortWrite = writeBytes + 1<<20

// cutEnd ends the log at the first invalid bytes, or the first missing segment, that no later record
// says was synced. What is invalid before is damage.
func (l *Log) cutEnd(all []*found) (left []*found, cut cutOff) {
	synced := l.syncedUpTo(all)
	if n := len(all); n > 0 && all[n-1].Number == synced.segment && all[n-1].Generation == 0 {
		all[n-1].synced = max(all[n-1].synced, synced.offset)
	}
	next := uint32(1)
	for i, f := range all {
		if f.Number > next {
			if !(place{segment: next}).before(synced) {
				return all[:i], cutOff{gone: all[i:], odd: true}
			}
			f.missing = f.Number - next
		}
		next = f.Through + 1
		if i+1 < len(all) && all[i+1].Number == next && f.Generation == 0 {
			f.synced = max(f.synced, all[i+1].Previous)
		}
		n := f.torn(synced)
		if n < 0 {
			continue
		}
		from, records := f.bad[n].from, len(f.index.Entries)
		cut.odd = f.size-from > shortWrite || i+1 < len(all)
		f.bad = f.bad[:n]
		f.cut(from)
		cut.odd = cut.odd || len(f.index.Entries) < records
		if len(f.index.Entries) > 0 {
			i++
		}
		cut.gone = all[i:]
		return all[:i], cut
	}
	// Nor does a last segment count that has no record yet: its first sequence says which were
	// skipped, and only its start record would tell.
	if n := len(all) - 1; n >= 0 && all[n].Generation == 0 && !all[n].whole && len(all[n].index.Entries) == 0 && len(all[n].bad) == 0 {
		return all[:n], cutOff{gone: all[n:]}
	}
	return all, cut
}

// torn returns which part is the first invalid one that was never synced, -1 without one.
func (f *found) torn(synced place) int {
	if !f.whole && f.synced > f.size {
		f.bad = append(f.bad, part{f.size, f.synced})
	}
	return slices.IndexFunc(f.bad, func(b part) bool { return !(place{f.Number, b.from}).before(synced) })
}

// cut drops the records of a segment from an offset on.
func (f *found) cut(offset int64) {
	f.size = offset
	f.index.Cut(offset)
	n := len(f.index.Entries)
	f.targets, f.named = f.targets[:n], f.named[:n]
	f.last = lastOf(f.index, f.First-1)
}

// syncedUpTo is the place before which everything was synced.
func (l *Log) syncedUpTo(all []*found) (up place) {
	later := func(at place) {
		// A segment that was rewritten has other offsets.
		if up.before(at) && !slices.ContainsFunc(all, func(of *found) bool {
			return of.Generation > 0 && of.Number <= at.segment && at.segment <= of.Through
		}) {
			up = at
		}
	}
	for _, f := range all {
		if f.synced > 0 {
			up = place{f.Number, f.synced}
		}
		for _, n := range f.named {
			if n == nil || n.Kind != record.Synced {
				continue
			}
			number, size := binary.Uvarint(n.Value)
			offset, _ := binary.Uvarint(n.Value[max(size, 0):])
			later(place{uint32(number), int64(offset)})
		}
	}
	later(l.before)
	return up
}

// damaged reports whether records are missing that were synced: invalid parts that cutEnd has left, but for the
// header, which is known from other segments, or whole segments.
func (f *found) damaged() bool {
	return f.missing > 0 || slices.ContainsFunc(f.bad, func(b part) bool { return b.from > 0 || b.to > segment.HeaderSize })
}
