package dynwatch

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

const (
	// ownerKept is for how long the row of an object that is gone is kept, at most
	// maxOwnersKept of them: a controller often goes before what it controls, and a Pod
	// may take its time.
	ownerKept     = 10 * time.Minute
	maxOwnersKept = 10_000
)

// ownerRows are what an index knows, by uid: the controller, nil for none.
type ownerRows struct {
	// current are of the objects that there are.
	current map[string]*frame.Owner
	// kept are of those that are gone, and of those that were looked up, by when they
	// come to be forgotten: queue has their order.
	kept  map[string]ownerKeptRow
	queue []string
}

type ownerKeptRow struct {
	owner *frame.Owner
	// there is false for what a look-up did not find.
	there bool
	until time.Time
}

func newOwnerRows() ownerRows {
	return ownerRows{current: make(map[string]*frame.Owner), kept: make(map[string]ownerKeptRow)}
}

// get returns the controller of an object, and whether it is known. Decided is false if
// nothing has been found out.
func (r *ownerRows) get(uid string, now time.Time) (owner *frame.Owner, known, decided bool) {
	if owner, ok := r.current[uid]; ok {
		return owner, true, true
	}
	k, ok := r.kept[uid]
	if !ok || now.After(k.until) {
		return nil, false, false
	}
	return k.owner, k.there, true
}

func (r *ownerRows) put(uid string, owner *frame.Owner) { r.current[uid] = owner }

func (r *ownerRows) remove(uid string, now time.Time) {
	owner, ok := r.current[uid]
	if !ok {
		return
	}
	delete(r.current, uid)
	r.keep(uid, owner, true, now)
}

// replace makes the rows those of a list.
func (r *ownerRows) replace(current map[string]*frame.Owner, now time.Time) {
	for uid, owner := range r.current {
		if _, still := current[uid]; !still {
			r.keep(uid, owner, true, now)
		}
	}
	r.current = current
}

// keep keeps what is known of an object that is not in a list or in the watch.
func (r *ownerRows) keep(uid string, owner *frame.Owner, there bool, now time.Time) {
	if _, again := r.kept[uid]; !again {
		r.queue = append(r.queue, uid)
	}
	r.kept[uid] = ownerKeptRow{owner: owner, there: there, until: now.Add(ownerKept)}
	for len(r.queue) > maxOwnersKept || now.After(r.kept[r.queue[0]].until) {
		delete(r.kept, r.queue[0])
		r.queue = r.queue[1:]
	}
}
