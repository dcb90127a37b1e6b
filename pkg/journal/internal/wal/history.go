package wal

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// ErrGone says that a record is no longer in the log, or not the last of its key.
var ErrGone = errors.New("the record is gone")

// History reads records from the files of the log: all in order, or the last one of a key. It has no state of its own.
type History struct {
	segments *segments
	keys     *Keys
	tail     *Tail
	barrier  *Barrier
}

// Place names the last event of a key, for [History.Read].
type Place struct {
	Key record.Hash
	Seq uint64
}

// Lasts returns the places of the last events of all objects that exist in some targets, nil for all, and of all
// kinds of control events, each in the order of the log, and the sequence at which it ends. Soft ones among them may not
// be durable. It has them synced and shipped: they are when [Barrier.Readable] is not below the end.
func (h *History) Lasts(in func(target string) bool) (objects, controls []Place, end uint64) {
	h.segments.monitor.mu.Lock()
	inside := h.keys.targets.each(func(target string) bool { return in == nil || in(target) })
	for key, e := range h.keys.table.all() {
		switch {
		case e.Kind != record.Event || e.Flags.Has(record.Ends) || !inside[e.Target]:
		case e.Flags.Has(record.Control):
			controls = append(controls, Place{key, e.Seq})
		default:
			objects = append(objects, Place{key, e.Seq})
		}
	}
	end = h.keys.last
	h.barrier.harden()
	h.segments.monitor.mu.Unlock()
	for _, all := range [][]Place{objects, controls} {
		slices.SortFunc(all, func(a, b Place) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return objects, controls, end
}

// LastOf returns the last event of a key, with its data.
func (h *History) LastOf(of *event.Event) (Entry, error) {
	var s Source
	defer s.Close()
	return h.Read(Place{Key: h.keys.hasher.Event(of)}, &s)
}

// Read returns the last event of a key if it has the sequence of the place, or any if that is 0. The
// error is [ErrGone] otherwise.
func (h *History) Read(of Place, in *Source) (Entry, error) {
	h.segments.monitor.mu.Lock()
	last := h.keys.table.get(of.Key)
	if h.segments.monitor.err != nil || last.Kind != record.Event || of.Seq != 0 && last.Seq != of.Seq {
		defer h.segments.monitor.mu.Unlock()
		return Entry{}, cmp.Or(h.segments.monitor.err, ErrGone)
	}
	if newest := h.tail.from(last.Seq); newest != nil {
		defer h.segments.monitor.mu.Unlock()
		return newest[0], nil
	}
	f, offset, size := h.segments.numbers[last.Segment], last.Offset, last.Size
	f.held++
	defer h.segments.release(f)
	h.segments.monitor.mu.Unlock()
	return in.event(h.segments, f, offset, size)
}

// EachLast calls take with the last event of each object of a target, terminal ones
// included, without data. The events belong to the callee. No event of the target may be appended
// meanwhile.
func (h *History) EachLast(target string, take func(e event.Event)) error {
	files, err := h.segments.hold()
	defer h.segments.release(files...)
	if err != nil {
		return err
	}
	number := h.keys.Target(target)
	var shared record.Strings
	for _, f := range files {
		heads, err := h.headsOf(f, number, target)
		if err != nil {
			return err
		}
		for _, head := range heads {
			e, err := record.ParseEvent(&record.Record{Time: head.Time, Head: head.Head}, &shared)
			if err != nil {
				return h.segments.damaged(f.Name, 0, err)
			}
			key := h.keys.hasher.Event(&e)
			h.segments.monitor.mu.Lock()
			is := h.keys.table.get(key).IsEvent(head.Seq)
			h.segments.monitor.mu.Unlock()
			if is && e.Target == target && !e.Op.Control() {
				take(e)
			}
		}
	}
	return nil
}

// headsOf takes the lock, and returns the heads of a target in a segment: of its last events, and maybe of others.
func (h *History) headsOf(f *file, number uint32, name string) (heads []segment.Head, err error) {
	h.segments.monitor.mu.Lock()
	index, parts := f.index, f.parts
	if index != nil {
		defer h.segments.monitor.mu.Unlock()
		for i := range index.Entries {
			e := &index.Entries[i]
			if last := h.keys.table.get(e.Key); e.Kind == record.Event && last.Target == number && last.IsEvent(e.Seq) {
				heads = append(heads, segment.Head{Seq: e.Seq, Time: e.Time, Head: index.Head(i)})
			}
		}
		return heads, nil
	}
	h.segments.monitor.mu.Unlock()
	i := slices.IndexFunc(parts, func(p segment.Part) bool { return p.Target == name })
	if i < 0 {
		return nil, nil
	}
	bytes, err := disk.Read(h.segments.store.dir, f.Index(), int64(parts[i].Offset), int(parts[i].Length))
	if err != nil {
		return nil, err
	}
	if heads, err = parts[i].Heads(bytes); err != nil {
		return nil, h.segments.damaged(f.Name, 0, err)
	}
	return heads, nil
}

// Each calls take with the kept events of a key, oldest first, until that returns an error, which it
// returns.
func (h *History) Each(of *event.Event, take func(Entry) error) error {
	key := h.keys.hasher.Event(of)
	return h.each(func(e *segment.Entry) bool { return e.Key == key }, take)
}

// EachControl calls take with the kept control events, oldest first, until that returns an error, which
// it returns.
func (h *History) EachControl(take func(Entry) error) error {
	return h.each(func(e *segment.Entry) bool { return e.Flags.Has(record.Control) }, take)
}

// each calls take with the events that match, in their order.
func (h *History) each(match func(*segment.Entry) bool, take func(Entry) error) error {
	var s Source
	defer s.Close()
	return h.entries(func(f *file, _ *segment.Index, e *segment.Entry) error {
		if e.Kind != record.Event || !match(e) {
			return nil
		}
		found, err := s.event(h.segments, f, e.Offset, e.Size)
		if err != nil {
			return err
		}
		return take(found)
	})
}

// entries calls take with what the index has of each record, in their order.
func (h *History) entries(take func(f *file, index *segment.Index, e *segment.Entry) error) error {
	files, err := h.segments.hold()
	defer h.segments.release(files...)
	if err != nil {
		return err
	}
	for _, f := range files {
		index, err := h.segments.indexOf(f)
		if err != nil {
			return err
		}
		for i := range index.Entries {
			if err := take(f, index, &index.Entries[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Since returns the sequence of the first event that was appended at or after a time, and that of the
// event before it, of those that the log has. Without one they are the next sequence, and 0.
func (h *History) Since(at time.Time) (first, before uint64, err error) {
	err = h.entries(func(_ *file, _ *segment.Index, e *segment.Entry) error {
		switch {
		case e.Kind != record.Event:
		case e.Time < at.UnixMicro():
			first, before = 0, e.Seq
		case first == 0:
			first = e.Seq
		}
		return nil
	})
	if first == 0 {
		first = h.keys.Last() + 1
	}
	return first, before, err
}

// Count counts the events between two sequences, both included, that the log has.
func (h *History) Count(from, to uint64) (n uint64, err error) {
	err = h.entries(func(_ *file, _ *segment.Index, e *segment.Entry) error {
		if e.Kind == record.Event && e.Seq >= from && e.Seq <= to {
			n++
		}
		return nil
	})
	return n, err
}

// Walk calls take with every record in order, with the last record of its key and the namespace of its object.
func (h *History) Walk(take func(e *segment.Entry, last Last, namespace string)) error {
	return h.entries(func(_ *file, index *segment.Index, e *segment.Entry) error {
		h.keys.monitor.mu.Lock()
		last := h.keys.table.get(e.Key)
		h.keys.monitor.mu.Unlock()
		take(e, last, index.NamespaceOf(e))
		return nil
	})
}
