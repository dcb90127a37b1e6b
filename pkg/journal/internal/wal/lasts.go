package wal

import (
	"cmp"
	"errors"
	"slices"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// ErrGone says that a record is no longer in the log, or not the last of its key.
var ErrGone = errors.New("the record is gone")

// Lasts reads the last event of each key. It has no state of its own.
type Lasts struct {
	monitor  *Monitor
	segments *segments
	keys     *Keys
	tail     *Tail
	barrier  *Barrier
}

// Place names the last event of a key, for [Lasts.Read].
type Place struct {
	Key record.Hash
	Seq uint64
}

// Places returns the places of the last events of all objects that exist in some targets, nil for all, and of all
// kinds of control events, each in the order of the log, and the sequence at which it ends. Soft ones among them may not
// be durable. It has them synced and shipped: they are when [Barrier.Readable] is not below the end.
func (l *Lasts) Places(in func(target string) bool) (objects, controls []Place, end uint64) {
	l.monitor.mu.Lock()
	inside := l.keys.targets.each(func(target string) bool { return in == nil || in(target) })
	for key, e := range l.keys.table.all() {
		switch {
		case e.Kind != record.Event || e.Flags.Has(record.Ends) || !inside[e.Target]:
		case e.Flags.Has(record.Control):
			controls = append(controls, Place{key, e.Seq})
		default:
			objects = append(objects, Place{key, e.Seq})
		}
	}
	end = l.keys.last
	l.barrier.harden()
	l.monitor.mu.Unlock()
	for _, all := range [][]Place{objects, controls} {
		slices.SortFunc(all, func(a, b Place) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return objects, controls, end
}

// Of returns the last event of a key, with its data.
func (l *Lasts) Of(of *event.Event, shared *record.Strings) (Entry, error) {
	l.monitor.mu.Lock()
	key := l.keys.hasher.Event(of)
	l.monitor.mu.Unlock()
	s := Source{Strings: shared}
	defer s.Close()
	return l.Read(Place{Key: key}, &s)
}

// Read returns the last event of a key if it has the sequence of the place, or any if that is 0. The
// error is [ErrGone] otherwise.
func (l *Lasts) Read(of Place, in *Source) (Entry, error) {
	l.monitor.mu.Lock()
	last := l.keys.table.get(of.Key)
	if l.monitor.err != nil || last.Kind != record.Event || of.Seq != 0 && last.Seq != of.Seq {
		defer l.monitor.mu.Unlock()
		return Entry{}, cmp.Or(l.monitor.err, ErrGone)
	}
	if newest := l.tail.from(last.Seq); newest != nil {
		defer l.monitor.mu.Unlock()
		return newest[0], nil
	}
	f, offset, size := l.segments.numbers[last.Segment], last.Offset, last.Size
	f.held++
	defer l.segments.release(f)
	l.monitor.mu.Unlock()
	return in.event(l.segments, f, offset, size)
}

// Each calls take with the last event of each object of a target, terminal ones
// included, without data. The events belong to the callee. No event of the target may be appended
// meanwhile.
func (l *Lasts) Each(target string, take func(e event.Event)) error {
	files, err := l.segments.hold()
	defer l.segments.release(files...)
	if err != nil {
		return err
	}
	number := l.keys.Target(target)
	var shared record.Strings
	hasher := record.NewHasher(l.keys.secret)
	for _, f := range files {
		heads, err := l.headsOf(f, number, target)
		if err != nil {
			return err
		}
		for _, h := range heads {
			e, err := record.ParseEvent(&record.Record{Time: h.Time, Head: h.Head}, &shared)
			if err != nil {
				return l.segments.damaged(f.Name, 0, err)
			}
			key := hasher.Event(&e)
			l.monitor.mu.Lock()
			is := l.keys.table.get(key).IsEvent(h.Seq)
			l.monitor.mu.Unlock()
			if is && e.Target == target && !e.Op.Control() {
				take(e)
			}
		}
	}
	return nil
}

// headsOf takes the lock, and returns the heads of a target in a segment: of its last events, and maybe of others.
func (l *Lasts) headsOf(f *file, number uint32, name string) (heads []segment.Head, err error) {
	l.monitor.mu.Lock()
	index, parts := f.index, f.parts
	if index != nil {
		defer l.monitor.mu.Unlock()
		for i := range index.Entries {
			e := &index.Entries[i]
			if last := l.keys.table.get(e.Key); e.Kind == record.Event && last.Target == number && last.IsEvent(e.Seq) {
				heads = append(heads, segment.Head{Seq: e.Seq, Time: e.Time, Head: index.Head(i)})
			}
		}
		return heads, nil
	}
	l.monitor.mu.Unlock()
	i := slices.IndexFunc(parts, func(p segment.Part) bool { return p.Target == name })
	if i < 0 {
		return nil, nil
	}
	bytes, err := disk.Read(l.segments.store.dir, f.Index(), int64(parts[i].Offset), int(parts[i].Length))
	if err != nil {
		return nil, err
	}
	if heads, err = parts[i].Heads(bytes); err != nil {
		return nil, l.segments.damaged(f.Name, 0, err)
	}
	return heads, nil
}
