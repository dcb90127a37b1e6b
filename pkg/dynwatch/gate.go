package dynwatch

import (
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/event"
)

// A change gate holds back new states of an object in which nothing that it asks about
// has changed since the object's last event. The index has the revision of that event,
// so that the chain of events has no hole, and beside it what the gates need: the
// hashes of that event, and the newest revision that was held back since. The log
// brings the hashes back after a restart, and not that revision: a list then shows the
// object at another one, its body is read, and held back once more.

// passage is what the index has of an object for the gates of its resource.
type passage struct {
	// hashes are those of the last event, see [frame.Gates].
	hashes []uint64
	// seen is the revision that was held back last, 0 if that is not known or none was.
	seen uint64
}

// remember notes the hashes of an entry's last event, nil for none.
func (x *index) remember(e *entry, hashes []uint64) {
	if hashes == nil {
		delete(x.passages, e)
		return
	}
	if x.passages == nil {
		x.passages = make(map[*entry]passage)
	}
	x.passages[e] = passage{hashes: hashes}
}

// known is the newest revision of an entry's object that was announced or held back.
func (x *index) known(e *entry) uint64 { return max(e.rv, x.passages[e].seen) }

// forgetSeen forgets what was held back: revisions mean something else from now on.
func (x *index) forgetSeen() {
	for e, p := range x.passages {
		p.seen = 0
		x.passages[e] = p
	}
}

// gatesOf is what an event of the object has to say to the gates.
func gatesOf(o *frame.Object, unchanged []uint64) *event.Gates {
	if o.Gates == nil {
		return nil
	}
	return &event.Gates{Hashes: o.Hashes, Unchanged: unchanged}
}

// unchanged reports whether the gates would hold the object's state back. Revisions
// of another epoch must not stay in the index: with them nothing is known.
func (t *target) unchanged(e *entry, o *frame.Object) bool {
	return o.Gates != nil && e.epoch == t.epoch && !o.Gates.Open(o.Hashes, t.index.passages[e].hashes)
}

// holdBack holds an object's new state back if the gates say so. While all objects are
// announced anew on request, none is: what the list was ahead of is told by the watch.
func (t *target) holdBack(e *entry, o *frame.Object) bool {
	if t.again.resnapshot != nil || !t.unchanged(e, o) {
		return false
	}
	t.status.unchanged.Add(1)
	t.heldBack(e, o.ResourceVersion)
	return true
}

// heldBack notes that an object was there at a revision, and as it was announced.
func (t *target) heldBack(e *entry, rv uint64) {
	p := t.index.passages[e]
	p.seen = max(p.seen, rv)
	t.index.passages[e] = p
	h := t.index.handle(e)
	delete(t.dropped.doubtful, h)
	t.undecided = slices.DeleteFunc(t.undecided, func(u undecided) bool { return u.entry == h })
}

// mayHaveHeldBack reports whether a state that the watch has come past, newer than the
// last event, may be one that was held back.
func (t *target) mayHaveHeldBack(e *entry, rv uint64) bool {
	p, gated := t.index.passages[e]
	return gated && e.epoch == t.epoch && rv > e.rv && (rv == p.seen || p.seen == 0 && rv <= t.cursor)
}
