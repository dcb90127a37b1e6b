package wal

import (
	"cmp"
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// Lasts returns the places of the last events of all objects that exist in some targets, nil for all, and of all
// kinds of control events, each in the order of the log, and the sequence at which it ends. Soft ones among them may not
// be durable. It has them synced and shipped: they are when [Log.Readable] is not below the end.
func (l *Log) Lasts(in func(target string) bool) (objects, controls []Place, end uint64) {
	l.mu.Lock()
	left := make([]bool, len(l.targets.names)) // out
	for i, name := range l.targets.names {
		left[i] = in != nil && !in(name)
	}
	for key, e := range l.table.all() {
		switch {
		case e.Kind != record.Event || e.Flags.Has(record.Ends) || left[e.Target]:
		case e.Flags.Has(record.Control):
			controls = append(controls, Place{key, e.Seq})
		default:
			objects = append(objects, Place{key, e.Seq})
		}
	}
	end = l.last
	l.harden()
	l.mu.Unlock()
	for _, all := range [][]Place{objects, controls} {
		slices.SortFunc(all, func(a, b Place) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return objects, controls, end
}

// CountLast counts the objects whose last event is of some targets, also those that have ended.
func (l *Log) CountLast(in func(target string) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := make([]bool, len(l.targets.names))
	for i, name := range l.targets.names {
		counts[i] = in(name)
	}
	for _, e := range l.table.all() {
		if e.Kind == record.Event && !e.Flags.Has(record.Control) && counts[e.Target] {
			n++
		}
	}
	return n
}

// EachLast calls take with the last event of each object of a target, terminal ones
// included, without data. The events belong to the callee. No event of the target may be appended
// meanwhile.
func (l *Log) EachLast(target string, take func(e event.Event)) error {
	files, err := l.hold()
	defer l.release(files...)
	if err != nil {
		return err
	}
	number := l.Target(target)
	var shared record.Strings
	hasher := record.NewHasher(l.secret)
	for _, f := range files {
		heads, err := l.headsOf(f, number, target)
		if err != nil {
			return err
		}
		for _, h := range heads {
			e, err := record.ParseEvent(&record.Record{Time: h.Time, Head: h.Head}, &shared)
			if err != nil {
				return l.damaged(f.Name, 0, err)
			}
			key := hasher.Event(&e)
			l.mu.Lock()
			is := l.table.get(key).IsEvent(h.Seq)
			l.mu.Unlock()
			if is && e.Target == target && !e.Op.Control() {
				take(e)
			}
		}
	}
	return nil
}

// headsOf returns the heads of a target in a segment: of its last events, and maybe of others.
func (l *Log) headsOf(f *file, number uint32, name string) (heads []segment.Head, err error) {
	l.mu.Lock()
	index, parts := f.index, f.parts
	if index != nil {
		defer l.mu.Unlock()
		for i := range index.Entries {
			e := &index.Entries[i]
			if last := l.table.get(e.Key); e.Kind == record.Event && last.Target == number && last.IsEvent(e.Seq) {
				heads = append(heads, segment.Head{Seq: e.Seq, Time: e.Time, Head: index.Head(i)})
			}
		}
		return heads, nil
	}
	l.mu.Unlock()
	i := slices.IndexFunc(parts, func(p segment.Part) bool { return p.Target == name })
	if i < 0 {
		return nil, nil
	}
	bytes, err := disk.Read(l.dir, f.Index(), int64(parts[i].Offset), int(parts[i].Length))
	if err != nil {
		return nil, err
	}
	if heads, err = parts[i].Heads(bytes); err != nil {
		return nil, l.damaged(f.Name, 0, err)
	}
	return heads, nil
}

// Each calls take with the kept events of a key, oldest first, until that returns an error, which it
// returns.
func (l *Log) Each(of *event.Event, take func(Entry) error) error {
	key := record.NewHasher(l.secret).Event(of)
	return l.each(func(e *segment.Entry) bool { return e.Key == key }, take)
}

// EachControl calls take with the kept control events, oldest first, until that returns an error, which
// it returns.
func (l *Log) EachControl(take func(Entry) error) error {
	return l.each(func(e *segment.Entry) bool { return e.Flags.Has(record.Control) }, take)
}

// each calls take with the events that match, in their order.
func (l *Log) each(match func(*segment.Entry) bool, take func(Entry) error) error {
	s := Source{Strings: new(record.Strings)}
	defer s.Close()
	return l.eachEntry(func(f *file, _ *segment.Index, e *segment.Entry) error {
		if e.Kind != record.Event || !match(e) {
			return nil
		}
		found, err := s.event(l, f, e.Offset, e.Size)
		if err != nil {
			return err
		}
		return take(found)
	})
}

// eachEntry calls take with what the index has of each record, in their order.
func (l *Log) eachEntry(take func(f *file, index *segment.Index, e *segment.Entry) error) error {
	files, err := l.hold()
	defer l.release(files...)
	if err != nil {
		return err
	}
	for _, f := range files {
		index, err := l.indexOf(f)
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
func (l *Log) Since(at time.Time) (first, before uint64, err error) {
	err = l.Walk(func(e *segment.Entry, _ Last, _ string) {
		switch {
		case e.Kind != record.Event:
		case e.Time < at.UnixMicro():
			first, before = 0, e.Seq
		case first == 0:
			first = e.Seq
		}
	})
	if first == 0 {
		first = l.Last() + 1
	}
	return first, before, err
}

// Count counts the events between two sequences, both included, that the log has.
func (l *Log) Count(from, to uint64) (n uint64, err error) {
	err = l.Walk(func(e *segment.Entry, _ Last, _ string) {
		if e.Kind == record.Event && e.Seq >= from && e.Seq <= to {
			n++
		}
	})
	return n, err
}

// Walk calls take with every record in order, with the last record of its key and the namespace of its object.
func (l *Log) Walk(take func(e *segment.Entry, last Last, namespace string)) error {
	return l.eachEntry(func(_ *file, index *segment.Index, e *segment.Entry) error {
		l.mu.Lock()
		last := l.table.get(e.Key)
		l.mu.Unlock()
		take(e, last, index.NamespaceOf(e))
		return nil
	})
}

// Target returns the number of a target in [Last].
func (l *Log) Target(name string) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.targets.number(name)
}

// Targets returns the names of all targets that the log has had events of since the start.
func (l *Log) Targets() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.targets.names)
}

// targets gives numbers to targets, for entries of the table.
type targets struct {
	names   []string
	numbers map[string]uint32
}

func (t *targets) number(name string) uint32 {
	n, known := t.numbers[name]
	if !known {
		n = uint32(len(t.names))
		t.names = append(t.names, name)
		t.numbers[name] = n
	}
	return n
}
