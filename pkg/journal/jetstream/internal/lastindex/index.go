package lastindex

import (
	"hash/maphash"
	"slices"
	"sync"
)

// Entry is the last message of a subject, as far as it is known.
type Entry struct {
	Seq uint64
	// ID is the hash of the event's id.
	ID uint64
	// Ends says that the event deletes its object, or ends its match.
	Ends bool
}

// Index has the last message of every subject, under a hash of the subject: some 50 bytes each.
// An entry can be wrong: it is the condition of a write, and the server refuses a wrong one. So
// it saves a request for each write. Methods may be called concurrently.
type Index struct {
	seed maphash.Seed
	// Limit is the number of messages that the stream keeps of a subject. Set it before the
	// first call.
	Limit int

	mu   sync.Mutex
	last map[uint64]Entry
	// recent has the newest messages of the subjects of Unread, and held is the number of
	// their sequences. Any of them can be dropped: Unread makes it again.
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

// New returns an empty index.
func New() *Index {
	return &Index{seed: maphash.MakeSeed(), last: map[uint64]Entry{}, recent: map[uint64]*recent{}}
}

// Hash returns the hash of a subject or id, which differs from process to process.
func (x *Index) Hash(s string) uint64 { return maphash.String(x.seed, s) }

// Get returns the zero Entry for an unknown subject: a write then expects no message.
func (x *Index) Get(subject uint64) Entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last[subject]
}

// Add is [Index.Set] for the message directly behind the last one.
func (x *Index) Add(subject uint64, last Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last[subject] = last
	r := x.recent[subject]
	if r == nil {
		return
	}
	if len(r.seqs) >= x.Limit {
		r.seqs = slices.Delete(r.seqs, 0, 1)
		x.held--
	}
	if x.held++; x.held > maxRecent { // this one included
		clear(x.recent)
		x.held = 0
		return
	}
	r.seqs = append(r.seqs, last.Seq)
}

// Set replaces the last message of a subject; the sequence 0 removes it.
func (x *Index) Set(subject uint64, last Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.blur(subject)
	if last.Seq == 0 {
		delete(x.last, subject)
		return
	}
	x.last[subject] = last
}

// Any reports whether the last message of any subject is known.
func (x *Index) Any() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.last) > 0
}

// Forget drops a subject whose messages up to seq were purged.
func (x *Index) Forget(subject string, seq uint64) {
	key := x.Hash(subject)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last[key].Seq == seq {
		x.blur(key)
		delete(x.last, key)
	}
}

// blur forgets the newest messages of a subject. It is called with the lock held.
func (x *Index) blur(subject uint64) {
	if r := x.recent[subject]; r != nil {
		x.held -= 1 + len(r.seqs)
		delete(x.recent, subject)
	}
}

// Unread is the number of messages of a subject that may be behind a sequence, at most Limit.
// From the first call on they are counted one by one. Earlier messages count as Limit, until
// they are passed.
func (x *Index) Unread(subject, passed uint64) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.recent[subject]
	if r == nil {
		if x.held >= maxRecent {
			clear(x.recent)
			x.held = 0
		}
		r = &recent{blur: x.last[subject].Seq}
		x.recent[subject] = r
		x.held++
	}
	if r.blur > passed {
		return x.Limit
	}
	n := len(r.seqs)
	for n > 0 && r.seqs[n-1] > passed {
		n--
	}
	return len(r.seqs) - n
}

// Remembered returns how many sequences recent holds, and about how many it may hold.
func (x *Index) Remembered() (held, limit int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.held, maxRecent + 1
}
