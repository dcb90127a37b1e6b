package wal

import (
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// blockSize is the memory that records are encoded into, in bytes. A block is never
// overwritten: readers keep parts of it. A write of more than a quarter has its own.
const blockSize = 256 << 10

// staged is a record that is encoded and not in the log yet.
type staged struct {
	entry     segment.Entry
	target    string
	namespace string
	head      []byte
	data      []byte // in the block
	event     *event.Event
	named     *Named
}

// batch encodes the records of one write. [Writer] owns it.
type batch struct {
	keys   *Keys
	hard   func(*event.Event) bool
	block  []byte // of the newest records
	staged []staged
}

// begin prepares a write of size bytes, which takes one piece of memory.
func (b *batch) begin(size int) {
	b.staged = b.staged[:0]
	if cap(b.block)-len(b.block) < size {
		if size <= blockSize/4 {
			size = blockSize
		}
		b.block = make([]byte, 0, size)
	}
}

// bytes are those of all staged records.
func (b *batch) bytes() []byte {
	size := 0
	for i := range b.staged {
		size += int(b.staged[i].entry.Size)
	}
	return b.block[len(b.block)-size:]
}

// count is the number of the next event of a key.
func (b *batch) count(k record.Hash) uint32 {
	for _, s := range slices.Backward(b.staged) {
		if s.entry.Key == k {
			return s.entry.Count + 1
		}
	}
	return b.keys.table.get(k).Count + 1
}

func (b *batch) stageEvent(e *event.Event, seq uint64, at int64) error {
	s := staged{target: e.Target, namespace: e.Namespace, event: e}
	s.entry = segment.Entry{Key: b.keys.hasher.Event(e), Seq: seq, Time: at, Kind: record.Event}
	s.entry.Count = b.count(s.entry.Key)
	switch {
	case e.Op.Control():
		s.entry.Flags |= record.Control
	case e.Op.Ends():
		s.entry.Flags |= record.Ends
	case e.Reannounced():
		s.entry.Flags |= record.Again
	}
	if b.hard(e) {
		s.entry.Flags |= record.Hard
	}
	var scratch [512]byte
	return b.encode(&s, record.AppendEvent(scratch[:0], e, at), e.Data)
}

// stageForgotten stages that the last event of an object counts no longer.
func (b *batch) stageForgotten(of *event.Event, at int64) error {
	key := b.keys.hasher.Event(of)
	last := b.keys.table.get(key)
	if last.Kind != record.Event || last.Flags.Has(record.Ends) || last.Target != b.keys.targets.number(of.Target) {
		return nil
	}
	e := event.Event{
		Time: time.UnixMicro(at), Target: of.Target, Group: of.Group, Resource: of.Resource, Namespace: of.Namespace, Name: of.Name,
		UID: of.UID, ResourceVersion: of.ResourceVersion,
	}
	s := staged{target: e.Target, namespace: e.Namespace}
	s.entry = segment.Entry{Key: key, Seq: b.keys.last, Time: at, Kind: record.Forgotten, Flags: record.Ends, Count: b.count(key)}
	return b.encode(&s, record.AppendEvent(nil, &e, at), nil)
}

// stageNamed stages a record of a name.
func (b *batch) stageNamed(kind record.Kind, name string, value, data []byte, count uint32, at int64) error {
	s := staged{named: &Named{Kind: kind, Name: name, Value: slices.Clone(value)}}
	s.entry = segment.Entry{Key: keyOf(b.keys.hasher, kind, name, count), Seq: b.keys.last, Time: at, Kind: kind, Count: count}
	if kind == record.LetterDropped {
		s.entry.Flags = record.Ends
	}
	return b.encode(&s, record.AppendNamed(nil, name, value), data)
}

// encode puts the record of s at the end of the block.
func (b *batch) encode(s *staged, head, data []byte) (err error) {
	from := len(b.block)
	b.block, err = record.Append(b.block, &record.Record{
		Kind: s.entry.Kind, Flags: s.entry.Flags, Seq: s.entry.Seq, Time: s.entry.Time, Count: s.entry.Count, Head: head, Data: data,
	})
	if err != nil {
		return err
	}
	s.entry.Size = uint32(len(b.block) - from)
	s.head = b.block[from+record.HeaderSize:][:len(head):len(head)]
	if data != nil {
		s.data = b.block[len(b.block)-len(data) : len(b.block) : len(b.block)]
	}
	b.staged = append(b.staged, *s)
	return nil
}
