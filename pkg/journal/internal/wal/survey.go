package wal

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// found is a segment at the start. Its size is that of its valid beginning.
type found struct {
	*file

	headless bool  // its header is invalid, so that nothing of it counts
	length   int64 // of the file
	indexed  int64 // the size of the segment in its index file, 0 without a valid one
	damaged  bool  // it lacks what was synced
	// targets and named belong to the records of the index, if that was read from the records.
	targets []string
	named   []*Named
	// begun is the last start record, and the place of its entry, if the index file was made again without it.
	begun   *Named
	begunAt int
}

// survey is what a start finds in a directory.
type survey struct {
	dir    disk.Dir
	id     [16]byte // of the log
	secret [16]byte // of the hashes of its keys
	synced place    // up to where earlier processes have synced, as they have noted
}

// find reads the headers and index files of all segments, in order, and the records of those without a valid
// index file, or of all if verify is set. It removes temporary files, segments that were replaced, and their
// index files.
func (s *survey) find(verify bool) (all []*found, err error) {
	names, err := s.dir.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		n, ok := segment.ParseName(name)
		switch {
		case strings.HasSuffix(name, disk.TemporarySuffix):
			err = errors.Join(err, disk.Remove(s.dir, name))
		case ok && name == n.Log():
			f, readErr := s.readHeader(n)
			all, err = append(all, f), errors.Join(err, readErr)
		}
	}
	if err == nil {
		all, err = s.dropReplaced(all)
	}
	if err == nil {
		err = errors.Join(s.dropIndexes(names, all), s.identify(all))
	}
	if err == nil {
		err = s.readNote(all)
	}
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		if err := s.inspect(f, verify); err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Log(), err)
		}
	}
	if verify {
		err = s.dir.Sync() // of index files: a start record behind them says that a loss is declared
	}
	return all, err
}

// identify takes the id of the log from the segments. Those whose header is invalid are of the same
// log.
func (s *survey) identify(all []*found) error {
	var first *found
	for _, f := range all {
		switch {
		case f.headless:
		case first == nil:
			first, s.id, s.secret = f, f.ID, f.Secret
		case f.ID != s.id:
			return fmt.Errorf("%s and %s are of two journals; move the files of one of them away", first.Log(), f.Log())
		}
	}
	if first == nil {
		for _, id := range [][]byte{s.id[:], s.secret[:]} {
			if _, err := rand.Read(id); err != nil {
				return err
			}
		}
	}
	for _, f := range all {
		f.ID, f.Secret = s.id, s.secret
	}
	return nil
}

// dropReplaced removes segments that one of a higher generation covers.
func (s *survey) dropReplaced(all []*found) (left []*found, err error) {
	slices.SortFunc(all, func(a, b *found) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(b.Generation, a.Generation))
	})
	for _, f := range all {
		covered := slices.ContainsFunc(left, func(by *found) bool {
			return by.Generation > f.Generation && f.Number <= by.Through
		})
		if !covered {
			left = append(left, f)
		} else if err := disk.Remove(s.dir, f.Log()); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// readNote reads up to where an earlier process has synced. The note of another log says nothing.
func (s *survey) readNote(all []*found) error {
	id, synced, err := readNote(s.dir)
	if known := slices.ContainsFunc(all, func(f *found) bool { return !f.headless }); !known || s.id == id {
		s.synced = synced
	}
	if s.synced.offset <= segment.HeaderSize {
		s.synced.offset = 0 // an empty segment may be gone, or have been begun again
	}
	return err
}

// dropIndexes removes index files without a segment.
func (s *survey) dropIndexes(names []string, all []*found) error {
	for _, name := range names {
		n, ok := segment.ParseName(name)
		if !ok || slices.ContainsFunc(all, func(f *found) bool { return f.Name == n }) {
			continue
		}
		if err := disk.Remove(s.dir, n.Index()); err != nil {
			return err
		}
	}
	return nil
}

// readHeader reads the header of a segment.
func (s *survey) readHeader(n segment.Name) (*found, error) {
	bytes, err := disk.Read(s.dir, n.Log(), 0, segment.HeaderSize)
	if err != nil {
		return nil, err
	}
	header, err := segment.ParseHeader(bytes, n)
	if errors.Is(err, segment.ErrFormat) {
		return nil, fmt.Errorf("%w: start that version again, or move the journal's files away, which begins with a new snapshot", err)
	}
	if err != nil {
		header = segment.Header{Name: n, Through: n.Number}
	}
	return &found{file: &file{Header: header}, headless: err != nil}, nil
}

// inspect reads the index file of a segment. Without a valid one, or if verify is set, it reads the
// records up to the first invalid one.
func (s *survey) inspect(f *found, verify bool) error {
	open, err := s.dir.Open(f.Log())
	if err != nil {
		return err
	}
	defer open.Close() //nolint:errcheck // it was only read
	if f.length, err = open.Size(); err != nil || f.headless {
		return err
	}
	var index *segment.Index
	if content, err := disk.Read(s.dir, f.Index(), 0, -1); err == nil {
		index, _ = segment.ParseIndex(content, f.Header) // without one it is made again
	}
	if index != nil {
		f.indexed = int64(index.Size)
	}
	if verify || index == nil || f.indexed > f.length {
		if err := s.scan(f); err != nil {
			return err
		}
	}
	switch {
	case index == nil || f.index != nil && f.size < f.indexed:
		return nil
	case f.index != nil:
		if err := s.reindex(f); err != nil {
			return unlessFull(err) // the index stays in memory then
		}
		index = f.index
	}
	f.size, f.parts, f.sum = f.indexed, index.Parts, index.Sum
	f.index, f.targets, f.named = nil, nil, nil
	return nil
}

// reindex writes the index file of a segment again, with the heads of all records that are the last of their key in
// the segment: what came behind may be lost. Not that of a start: that a newer one is missing must show, until the start
// in progress has written its own.
func (s *survey) reindex(f *found) error {
	lasts, entries := map[record.Hash]int{}, f.index.Entries
	for i := range entries {
		lasts[entries[i].Key] = i
		if entries[i].Kind == record.Start {
			f.begun, f.begunAt = f.named[i], i
		}
	}
	bytes := f.index.Append(nil, func(i int) (string, bool) {
		return f.targets[i], lasts[entries[i].Key] == i && entries[i].Kind != record.Start
	})
	return disk.Write(s.dir, f.Index(), bytes, true)
}

// scan reads the records of a segment up to the first invalid one.
func (s *survey) scan(f *found) error {
	bytes, err := disk.Read(s.dir, f.Log(), 0, -1)
	if err != nil {
		return err
	}
	f.index, f.size = segment.NewIndex(f.Header, nil), segment.HeaderSize
	f.targets, f.named = nil, nil
	var shared record.Strings
	for f.indexed == 0 || f.size < f.indexed {
		r, size, err := record.Parse(bytes[f.size:])
		if err != nil || s.addScanned(f, &r, &shared) != nil {
			return nil //nolint:nilerr // the segment ends here
		}
		f.size += int64(size)
	}
	return nil
}

// addScanned adds the next record to the index of a segment.
func (s *survey) addScanned(f *found, r *record.Record, shared *record.Strings) error {
	e := segment.Entry{Seq: r.Seq, Time: r.Time, Size: uint32(r.Size()), Count: r.Count, Kind: r.Kind, Flags: r.Flags}
	target, namespace, named := "", "", (*Named)(nil)
	if r.Kind.Keyed() {
		parsed, err := record.ParseEvent(&record.Record{Time: r.Time, Head: r.Head}, shared)
		if err != nil {
			return err
		}
		e.Key, target, namespace = record.Hasher(s.secret).Event(&parsed), parsed.Target, parsed.Namespace
	} else {
		var err error
		if named, err = parseNamed(r.Kind, r.Head); err != nil {
			return err
		}
		e.Key = keyOf(s.secret, r.Kind, named.Name, r.Count)
	}
	f.index.Add(e, namespace, r.Head)
	f.targets, f.named = append(f.targets, target), append(f.named, named)
	return nil
}

// ending is how the log ends, and what it lacks.
type ending struct {
	gone    []*found       // segments behind the end
	broken  []segment.Name // segments before it of which nothing counts
	odd     bool           // a killed process leaves less behind the end
	damaged bool           // synced records are missing
	hole    uint32         // the newest segment behind missing ones that were synced, 0 without one
}

// shortWrite is how much of a write a killed process may have left at the end of the log.
const shortWrite = writeBytes + 1<<20

// findEnd ends the log at the first invalid bytes, or the first missing segment, that were not synced.
// Behind others the log goes on: they are damage. It returns the segments that have records.
func (s *survey) findEnd(all []*found) (left []*found, end ending) {
	synced := s.syncedUpTo(all)
	through := uint32(0)
	if n := len(all); n > 0 {
		through = all[n-1].Through
	}
	end.damaged = place{segment: through + 1}.before(s.synced)
	next := uint32(1)
	for i, f := range all {
		if f.Number > next && !(place{segment: next}).before(synced) && !f.declares() {
			end.gone, end.odd = all[i:], true
			break
		}
		if f.Number > next {
			end.hole = f.Number
		}
		next = f.Through + 1
		incomplete := f.incomplete(all[i+1:], s.synced)
		f.damaged = incomplete && f.end().before(synced)
		end.damaged = end.damaged || f.damaged
		if !f.headless {
			left = append(left, f)
		} else if f.damaged {
			end.broken = append(end.broken, f.Name)
		}
		if incomplete && !f.damaged {
			end.odd = f.length-f.size > shortWrite || i+1 < len(all)
			end.gone = all[len(left)+len(end.broken):]
			break
		}
	}
	// A last segment without a record does not count: its first sequence says which were skipped, and only
	// its start record would tell.
	if n := len(left) - 1; n >= 0 && left[n].index != nil && len(left[n].index.Entries) == 0 && !left[n].damaged {
		left, end.gone = left[:n], append([]*found{left[n]}, end.gone...)
	}
	return left, end
}

// declares reports whether a segment whose records were read begins with a start that has found a loss: it may have left
// numbers out, which a copy of the log does not know as synced.
func (f *found) declares() bool {
	var s start
	return len(f.named) > 0 && f.named[0] != nil && f.named[0].Kind == record.Start && json.Unmarshal(f.named[0].Value, &s) == nil &&
		s.Checked == f.Number
}

// syncedUpTo is the place before which everything was synced.
func (s *survey) syncedUpTo(all []*found) place {
	up := s.synced
	for _, f := range all {
		if through := (place{segment: f.Through + 1}); (f.indexed > 0 || f.Generation > 0) && up.before(through) {
			up = through
		}
	}
	return up
}

// incomplete reports whether a segment has invalid bytes, or lacks some at its end. Behind are the segments that
// follow, and synced is up to where the log was synced.
func (f *found) incomplete(behind []*found, synced place) bool {
	least := f.indexed
	if f.Generation == 0 && synced.segment == f.Number {
		least = max(least, synced.offset)
	}
	switch follows := len(behind) > 0 && behind[0].Number == f.Number+1 && !behind[0].headless; {
	case f.headless || f.size < least:
		return true
	case f.index == nil:
		return false
	case follows && f.Generation == 0:
		return f.size < behind[0].Previous
	}
	return f.size < f.length
}
