package index

// A change filter skips new states of an object in which no field that it names has
// changed since the object's last event. The index has the revision of that event, so that
// the chain of events has no gap, and beside it what the filters need. The log returns the
// hashes after a restart, and not the skipped revision: a list then shows the object at
// another revision, and informd reads its body and skips it again.

// filtered is what the index has of an object for the change filters of its resource.
type filtered struct {
	// hashes are those of the fields that the filters name, in the last event.
	hashes []uint64
	// skipped is the revision that was skipped last, 0 if it is unknown or none was.
	skipped uint64
}

// SetHashes remembers the hashes of an entry's last event, nil for none. It forgets the
// skipped revision.
func (x *Index) SetHashes(e *Entry, hashes []uint64) {
	if hashes == nil {
		delete(x.filtered, e)
		return
	}
	if x.filtered == nil {
		x.filtered = make(map[*Entry]filtered)
	}
	x.filtered[e] = filtered{hashes: hashes}
}

// Hashes returns those of an entry's last event, nil if a change filter needs none.
func (x *Index) Hashes(e *Entry) []uint64 { return x.filtered[e].hashes }

// Skip remembers that an object existed at a revision, in the state of its last event.
func (x *Index) Skip(e *Entry, rv uint64) {
	p := x.filtered[e]
	p.skipped = max(p.skipped, rv)
	x.filtered[e] = p
}

// Skipped returns the revision that was skipped last, 0 if it is unknown or none was.
// Without hashes, ok is false.
func (x *Index) Skipped(e *Entry) (rv uint64, ok bool) {
	p, ok := x.filtered[e]
	return p.skipped, ok
}

// ForgetSkipped forgets the skipped revisions: after a rollback they mean something else.
func (x *Index) ForgetSkipped() {
	for e, p := range x.filtered {
		p.skipped = 0
		x.filtered[e] = p
	}
}

// Newest returns the newest revision of an entry's object that was announced or skipped.
func (x *Index) Newest(e *Entry) uint64 { return max(e.RV, x.filtered[e].skipped) }

// Contradicts reports whether an answer at revision at cannot be of the history of the
// entry: the answer is not older than the entry, and shows its object at an older
// revision, or another object under its name that is not newer. All detection of
// rollbacks by objects goes through this rule.
func (x *Index) Contradicts(e *Entry, uid string, rv, at uint64) bool {
	switch {
	case e == nil || rv == 0 || at < x.Newest(e):
		return false
	case x.IsUID(e, uid):
		return rv < x.Newest(e)
	default:
		return rv <= e.RV
	}
}
