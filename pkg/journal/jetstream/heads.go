package jetstream

import (
	"hash/maphash"
	"sync"
)

// head is what is believed of the last message of a subject.
type head struct {
	seq uint64
	id  uint64 // hash of the event's id
	// ends says that the event ends its object.
	ends bool
}

// heads remembers the last message of every subject, under a hash of it: some 50
// bytes each. It is a guess that saves a question: what is wrong, the server
// refuses. Its methods may be called concurrently.
type heads struct {
	seed maphash.Seed

	mu   sync.Mutex
	last map[uint64]head
}

func newHeads() *heads {
	return &heads{seed: maphash.MakeSeed(), last: map[uint64]head{}}
}

func (h *heads) hash(s string) uint64 { return maphash.String(h.seed, s) }

// get returns the zero head for an unknown subject: none is expected then.
func (h *heads) get(subject uint64) head {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[subject]
}

func (h *heads) set(subject uint64, last head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last.seq == 0 {
		delete(h.last, subject)
		return
	}
	h.last[subject] = last
}

// forget drops a subject whose messages up to seq were purged.
func (h *heads) forget(subject string, seq uint64) {
	key := h.hash(subject)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last[key].seq == seq {
		delete(h.last, key)
	}
}
