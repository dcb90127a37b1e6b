package wal

import (
	"slices"
	"time"
)

// entrySize is about the memory of an event beside its data, in bytes.
const entrySize = 768

// Tail has the newest events, for readers that keep up. Their sequences follow each other. The log's lock guards it.
type Tail struct {
	monitor *Monitor
	barrier *Barrier
	most    int // bytes
	entries []Entry
	first   int // of entries; those before were dropped
	bytes   int
}

func (t *Tail) add(e Entry) {
	if n := len(t.entries); n > 0 && t.entries[n-1].Seq+1 != e.Seq {
		t.entries, t.first, t.bytes = nil, 0, 0
	}
	if len(t.entries) == cap(t.entries) && t.first > len(t.entries)/2 {
		n := copy(t.entries, t.entries[t.first:])
		clear(t.entries[n:])
		t.entries, t.first = t.entries[:n], 0
	}
	t.entries = append(t.entries, e)
	t.bytes += len(e.Event.Data) + entrySize
	for ; t.bytes > t.most && t.first < len(t.entries)-1; t.first++ {
		t.bytes -= len(t.entries[t.first].Event.Data) + entrySize
		t.entries[t.first] = Entry{} // its data is no longer needed
	}
}

// from returns the events from a sequence on, none if the memory begins later. The next add may move them.
func (t *Tail) from(seq uint64) []Entry {
	entries := t.entries[t.first:]
	if len(entries) == 0 || seq < entries[0].Seq || seq > entries[len(entries)-1].Seq {
		return nil
	}
	return entries[seq-entries[0].Seq:]
}

// Read returns copies of at most limit of the newest events between two sequences, as far as they are
// readable. Behind is true if the memory begins later: events are in files then, if there are any.
func (t *Tail) Read(next, to uint64, limit int) (entries []Entry, behind bool) {
	t.monitor.mu.Lock()
	defer t.monitor.mu.Unlock()
	end := min(to, t.barrier.readable())
	if next > end {
		return nil, false
	}
	entries = t.from(next)
	if entries == nil {
		return nil, true
	}
	n := min(uint64(limit), end-next+1, uint64(len(entries)))
	return slices.Clone(entries[:n]), false
}

// Appended is the time of the append of an event, or of the oldest one in memory if it is older;
// zero if there is no such event in memory.
func (t *Tail) Appended(seq uint64) time.Time {
	t.monitor.mu.Lock()
	defer t.monitor.mu.Unlock()
	if entries := t.entries[t.first:]; len(entries) > 0 && seq < entries[0].Seq {
		return entries[0].Appended
	}
	if entries := t.from(seq); entries != nil {
		return entries[0].Appended
	}
	return time.Time{}
}
