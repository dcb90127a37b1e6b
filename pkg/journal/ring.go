package journal

import (
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
)

const (
	// chunkLen is the number of slots per allocation. A queue of chunks grows and shrinks
	// without copying events. The memory of a burst is freed with its last event, except the
	// chunks for events of usual size.
	chunkLen = 128
	// usualSize is the least size of most events.
	usualSize = 4 << 10
)

type chunk [chunkLen]slot

// slot is one event in the ring.
type slot struct {
	event event.Event
	size  uint64
	at    time.Duration // when it was appended, since the journal's start
}

// ring holds the slots with the sequences first to last, without holes. Its
// zero value is not ready: the first sequence is 1.
type ring struct {
	first, last uint64 // empty if last == first-1
	bytes       uint64
	chunks      []*chunk
	base        uint64 // the sequence of the first slot of chunks[0]
	// spare are empty chunks, at most spares, so that a steady stream does not allocate.
	spare  []*chunk
	spares int
}

// newRing returns a ring for events of capacity bytes in all.
func newRing(capacity uint64) ring {
	return ring{first: 1, base: 1, spares: 1 + int(capacity/usualSize/chunkLen)}
}

func (r *ring) len() uint64 { return r.last + 1 - r.first }

// at returns the slot of a sequence in the ring, or of the one that push adds.
func (r *ring) at(seq uint64) *slot {
	i := seq - r.base
	return &r.chunks[i/chunkLen][i%chunkLen]
}

// push adds s behind the last slot.
func (r *ring) push(s slot) {
	r.last++
	if (r.last-r.base)/chunkLen == uint64(len(r.chunks)) {
		r.chunks = append(r.chunks, r.fresh())
	}
	*r.at(r.last) = s
	r.bytes += s.size
}

// fresh returns an empty chunk.
func (r *ring) fresh() *chunk {
	last := len(r.spare) - 1
	if last < 0 {
		return new(chunk)
	}
	c := r.spare[last]
	r.spare = slices.Delete(r.spare, last, last+1)
	return c
}

// drop frees the first slot and returns the Data of its event.
func (r *ring) drop() (data []byte) {
	s := r.at(r.first)
	data = s.event.Data
	r.bytes -= s.size
	*s = slot{}
	if r.first+1-r.base == chunkLen {
		if len(r.spare) < r.spares {
			r.spare = append(r.spare, r.chunks[0])
		}
		r.chunks = slices.Delete(r.chunks, 0, 1)
		r.base += chunkLen
	}
	r.first++
	return data
}
