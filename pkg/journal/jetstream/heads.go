package jetstream

import (
	"hash/maphash"
	"slices"
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
	seed  maphash.Seed
	limit int // how many messages of a subject are kept; set before anything is asked

	mu   sync.Mutex
	last map[uint64]head
	// recent are the newest messages of subjects that unread was asked about, and held
	// is how many sequences they have. Any of them may go: it is made again.
	recent map[uint64]*recent
	held   int
}

// recent are the newest messages of a subject.
type recent struct {
	// blur is the sequence up to which nothing is known of them one by one.
	blur uint64
	// seqs are behind that, ascending, at most as many as are kept.
	seqs []uint64
}

// maxRecent bounds the sequences that are held in recent.
const maxRecent = 1 << 17

func newHeads() *heads {
	return &heads{seed: maphash.MakeSeed(), last: map[uint64]head{}, recent: map[uint64]*recent{}}
}

func (h *heads) hash(s string) uint64 { return maphash.String(h.seed, s) }

// get returns the zero head for an unknown subject: none is expected then.
func (h *heads) get(subject uint64) head {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[subject]
}

// add is set for a message directly behind the one that was the last.
func (h *heads) add(subject uint64, last head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[subject] = last
	r := h.recent[subject]
	if r == nil {
		return
	}
	if len(r.seqs) >= h.limit {
		r.seqs = slices.Delete(r.seqs, 0, 1)
		h.held--
	}
	if h.held++; h.held > maxRecent { // what happens now counts, too
		clear(h.recent)
		h.held = 0
		return
	}
	r.seqs = append(r.seqs, last.seq)
}

func (h *heads) set(subject uint64, last head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blur(subject)
	if last.seq == 0 {
		delete(h.last, subject)
		return
	}
	h.last[subject] = last
}

// any reports whether the last message of any subject is known.
func (h *heads) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.last) > 0
}

// forget drops a subject whose messages up to seq were purged.
func (h *heads) forget(subject string, seq uint64) {
	key := h.hash(subject)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last[key].seq == seq {
		h.blur(key)
		delete(h.last, key)
	}
}

// blur forgets the newest messages of a subject. It is called with the lock held.
func (h *heads) blur(subject uint64) {
	if r := h.recent[subject]; r != nil {
		h.held -= 1 + len(r.seqs)
		delete(h.recent, subject)
	}
}

// unread is how many messages of a subject may lie behind a sequence, at most as many
// as are kept. From the first call on they are counted one by one; what was there
// before counts as all that is kept, until it is passed.
func (h *heads) unread(subject, passed uint64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.recent[subject]
	if r == nil {
		if h.held >= maxRecent {
			clear(h.recent)
			h.held = 0
		}
		r = &recent{blur: h.last[subject].seq}
		h.recent[subject] = r
		h.held++
	}
	if r.blur > passed {
		return h.limit
	}
	n := len(r.seqs)
	for n > 0 && r.seqs[n-1] > passed {
		n--
	}
	return len(r.seqs) - n
}
