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

// rowKey names an object of an index. A controller is in the namespace of what it controls,
// or in none: who knows a uid of another namespace learns nothing about that by naming it.
func rowKey(namespace, uid string) string { return namespace + "/" + uid }

// ownerRows are what an index knows, by [rowKey]: the controller, nil for none.
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
func (r *ownerRows) get(key string, now time.Time) (owner *frame.Owner, known, decided bool) {
	if owner, ok := r.current[key]; ok {
		return owner, true, true
	}
	k, ok := r.kept[key]
	if !ok || now.After(k.until) {
		return nil, false, false
	}
	return k.owner, k.there, true
}

func (r *ownerRows) put(key string, owner *frame.Owner) { r.current[key] = owner }

func (r *ownerRows) remove(key string, now time.Time) {
	owner, ok := r.current[key]
	if !ok {
		return
	}
	delete(r.current, key)
	r.keep(key, owner, true, now)
}

// replace makes the rows those of a list.
func (r *ownerRows) replace(current map[string]*frame.Owner, now time.Time) {
	for key, owner := range r.current {
		if _, still := current[key]; !still {
			r.keep(key, owner, true, now)
		}
	}
	r.current = current
}

// keep keeps what is known of an object that is not in a list or in the watch.
func (r *ownerRows) keep(key string, owner *frame.Owner, there bool, now time.Time) {
	if _, again := r.kept[key]; !again {
		r.queue = append(r.queue, key)
	}
	r.kept[key] = ownerKeptRow{owner: owner, there: there, until: now.Add(ownerKept)}
	for len(r.queue) > maxOwnersKept || now.After(r.kept[r.queue[0]].until) {
		delete(r.kept, r.queue[0])
		r.queue = r.queue[1:]
	}
}
