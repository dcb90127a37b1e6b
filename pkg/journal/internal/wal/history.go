package wal

import (
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// History reads the records of the log in order, with its index files. It has no state of its own.
type History struct {
	segments *segments
	keys     *Keys
}

// Each calls take with the kept events of a key, oldest first, until that returns an error, which it
// returns.
func (h *History) Each(of *event.Event, take func(Entry) error) error {
	key := record.NewHasher(h.keys.secret).Event(of)
	return h.each(func(e *segment.Entry) bool { return e.Key == key }, take)
}

// EachControl calls take with the kept control events, oldest first, until that returns an error, which
// it returns.
func (h *History) EachControl(take func(Entry) error) error {
	return h.each(func(e *segment.Entry) bool { return e.Flags.Has(record.Control) }, take)
}

// each calls take with the events that match, in their order.
func (h *History) each(match func(*segment.Entry) bool, take func(Entry) error) error {
	s := Source{Strings: new(record.Strings)}
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
