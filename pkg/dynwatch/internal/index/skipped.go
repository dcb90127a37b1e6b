package index

// A change filter skips new states of an object that it sees no change in. The index has the
// revision of the last event, so that the chain of events has no gap, and beside it the revision
// that was skipped last. The log does not return that after a restart: a list then shows the object
// at another revision, and informd reads its body and skips it again.

// Skip remembers that an object existed at a revision, in the state of its last event.
func (x *Index) Skip(e *Entry, rv uint64) {
	if x.skipped == nil {
		x.skipped = make(map[*Entry]uint64)
	}
	x.skipped[e] = max(x.skipped[e], rv)
}

// Announced forgets the skipped revision of an entry: an event follows.
func (x *Index) Announced(e *Entry) { delete(x.skipped, e) }

// Skipped returns the revision that was skipped last, 0 if it is unknown or none was.
func (x *Index) Skipped(e *Entry) uint64 { return x.skipped[e] }

// ForgetSkipped forgets the skipped revisions: after a rollback they mean something else.
func (x *Index) ForgetSkipped() { x.skipped = nil }

// Newest returns the newest revision of an entry's object that was announced or skipped.
func (x *Index) Newest(e *Entry) uint64 { return max(e.RV, x.skipped[e]) }
