package wal

import (
	"slices"
	"time"
)

// entrySize is about the memory of an event beside its record, in bytes.
const entrySize = 512

// tail has the newest events, for readers that keep up. Their sequences follow each other.
type tail struct {
	most    int // bytes
	entries []Entry
	sizes   []int
	bytes   int
}

func (t *tail) add(e Entry, size int) {
	if n := len(t.entries); n > 0 && t.entries[n-1].Seq+1 != e.Seq {
		*t = tail{most: t.most}
	}
	t.entries, t.sizes = append(t.entries, e), append(t.sizes, size+entrySize)
	t.bytes += size + entrySize
	drop := 0
	for t.bytes > t.most && drop < len(t.entries)-1 {
		t.bytes -= t.sizes[drop]
		t.entries[drop] = Entry{} // its data is no longer needed
		drop++
	}
	// Append moves the rest to new memory now and then, which frees what was dropped.
	t.entries, t.sizes = t.entries[drop:], t.sizes[drop:]
}

// from returns the events from a sequence on, none if the memory begins later.
func (t *tail) from(seq uint64) []Entry {
	if len(t.entries) == 0 || seq < t.entries[0].Seq || seq > t.entries[len(t.entries)-1].Seq {
		return nil
	}
	return t.entries[seq-t.entries[0].Seq:]
}

// Tail returns copies of at most limit of the newest events between two sequences, as far as they are
// readable. Behind is true if the memory begins later: events are in files then, if there are any.
func (l *Log) Tail(next, to uint64, limit int) (entries []Entry, behind bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := min(to, l.readable())
	if next > end {
		return nil, false
	}
	entries = l.tail.from(next)
	if entries == nil {
		return nil, true
	}
	n := min(uint64(limit), end-next+1, uint64(len(entries)))
	return slices.Clone(entries[:n]), false
}

// Appended is the time of the append of an event, or of the oldest one in memory if it is older;
// zero if there is no such event in memory.
func (l *Log) Appended(seq uint64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tail.entries) == 0 {
		return time.Time{}
	}
	if entries := l.tail.from(max(seq, l.tail.entries[0].Seq)); entries != nil {
		return entries[0].Appended
	}
	return time.Time{}
}
