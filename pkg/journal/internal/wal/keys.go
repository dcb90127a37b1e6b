package wal

import (
	"slices"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// Named is the newest record of a name: the checkpoint of a target, or what a sink keeps.
type Named struct {
	Kind  record.Kind
	Name  string
	Value []byte
	// Seq is the sequence of the event before it. The checkpoint of a target that is below [Log.Damage] is void: the
	// log has lost records that it may count on.
	Seq uint64
}

// Keys is what the log knows of its records without reading them. The log's lock guards it.
type Keys struct {
	monitor *Monitor
	hasher  record.Hasher
	table   table
	targets targets
	named   map[record.Hash]*Named
	letters boxes
	last    uint64 // sequence of the newest event
	events  uint64
}

// apply takes notice of a record, as it is written or found at the start.
func (k *Keys) apply(f *file, e *segment.Entry, offset uint32, target string, named *Named) {
	k.last = max(k.last, e.Seq)
	place := Last{Seq: e.Seq, Segment: f.Number, Offset: offset, Size: e.Size, Count: e.Count, Kind: e.Kind, Flags: e.Flags}
	switch e.Kind {
	case record.Event, record.Forgotten:
		if e.Kind == record.Event {
			k.events++
		}
		place.Target = k.targets.number(target)
	case record.Letter:
		k.letters.of(named.Name).add(e.Count, e.Size)
	case record.LetterDropped:
		k.letters.of(named.Name).drop(e.Count, k.table.get(e.Key).Size)
	default:
		named.Seq = e.Seq
		k.named[e.Key] = named
	}
	k.table.set(e.Key, place)
}

// lastAt returns the last record of an entry's key, and whether it is the one at that place.
func (k *Keys) lastAt(e *segment.Entry, at place) (last Last, is bool) {
	last = k.table.get(e.Key)
	return last, last.exists() && last.place() == at
}

// keyOf is the key of a record that is no event.
func keyOf(h record.Hasher, kind record.Kind, name string, count uint32) record.Hash {
	if kind == record.Letter || kind == record.LetterDropped {
		return h.Letter(name, count)
	}
	return h.Record(kind, name)
}

// Get returns the newest value of a name.
func (k *Keys) Get(kind record.Kind, name string) (n Named, ok bool) {
	k.monitor.mu.Lock()
	defer k.monitor.mu.Unlock()
	found := k.named[k.hasher.Record(kind, name)]
	if found == nil {
		return Named{}, false
	}
	return *found, true
}

// All returns the newest values of all names of a kind, in no order.
func (k *Keys) All(kind record.Kind) (all []Named) {
	k.monitor.mu.Lock()
	defer k.monitor.mu.Unlock()
	for _, n := range k.named {
		if n.Kind == kind {
			all = append(all, *n)
		}
	}
	return all
}

// Last is the newest sequence: of an event, or of a range that was skipped; 0 without one.
func (k *Keys) Last() uint64 {
	k.monitor.mu.Lock()
	defer k.monitor.mu.Unlock()
	return k.last
}

// Has reports whether the log has an event of a key.
func (k *Keys) Has(of *event.Event) bool {
	k.monitor.mu.Lock()
	defer k.monitor.mu.Unlock()
	return k.table.get(k.hasher.Event(of)).exists()
}

// CountLast counts the objects whose last event is of some targets, also those that have ended.
func (k *Keys) CountLast(in func(target string) bool) (n int) {
	k.monitor.mu.Lock()
	defer k.monitor.mu.Unlock()
	counts := k.targets.each(in)
	for _, e := range k.table.all() {
		if e.Kind == record.Event && !e.Flags.Has(record.Control) && counts[e.Target] {
			n++
		}
	}
	return n
}

// Target returns the number of a target in [Last].
func (k *Keys) Target(name string) uint32 {
	k.monitor.mu.Lock()
	defer k.monitor.mu.Unlock()
	return k.targets.number(name)
}

// Targets returns the names of all targets that the log has had events of since the start.
func (k *Keys) Targets() []string {
	k.monitor.mu.Lock()
	defer k.monitor.mu.Unlock()
	return slices.Clone(k.targets.names)
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

// each returns, by number, what is said of each target.
func (t *targets) each(says func(target string) bool) []bool {
	all := make([]bool, len(t.names))
	for i, name := range t.names {
		all[i] = says(name)
	}
	return all
}
