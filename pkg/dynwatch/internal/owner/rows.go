package owner

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

const (
	// keptFor is for how long the row of an object that is gone is kept, at most
	// maxKept of them: a controller often goes before what it controls, and a Pod
	// may take its time.
	keptFor = 10 * time.Minute
	maxKept = 10_000
)

// rowKey names an object of an index. A controller is in the namespace of what it controls,
// or in none: who knows a uid of another namespace learns nothing about that by naming it.
func rowKey(namespace, uid string) string { return namespace + "/" + uid }

// rows are what an index knows, by [rowKey]: the controller, nil for none.
type rows struct {
	// current are of the objects that there are.
	current map[string]*frame.Owner
	// kept are of those that are gone, and of those that were looked up, by when they
	// come to be forgotten: queue has their order.
	kept  map[string]keptRow
	queue []string
}

type keptRow struct {
	owner *frame.Owner
	// there is false for what a look-up did not find.
	there bool
	until time.Time
}

func newRows() rows {
	return rows{current: make(map[string]*frame.Owner), kept: make(map[string]keptRow)}
}

// get returns the controller of an object, and whether it is known. Decided is false if
// nothing has been found out.
func (r *rows) get(key string, now time.Time) (owner *frame.Owner, known, decided bool) {
	if owner, ok := r.current[key]; ok {
		return owner, true, true
	}
	k, ok := r.kept[key]
	if !ok || now.After(k.until) {
		return nil, false, false
	}
	return k.owner, k.there, true
}

func (r *rows) put(key string, owner *frame.Owner) { r.current[key] = owner }

func (r *rows) remove(key string, now time.Time) {
	owner, ok := r.current[key]
	if !ok {
		return
	}
	delete(r.current, key)
	r.keep(key, owner, true, now)
}

// replace makes the rows those of a list.
func (r *rows) replace(current map[string]*frame.Owner, now time.Time) {
	for key, owner := range r.current {
		if _, still := current[key]; !still {
			r.keep(key, owner, true, now)
		}
	}
	r.current = current
}

// keep keeps what is known of an object that is not in a list or in the watch.
func (r *rows) keep(key string, owner *frame.Owner, there bool, now time.Time) {
	if _, again := r.kept[key]; !again {
		r.queue = append(r.queue, key)
	}
	r.kept[key] = keptRow{owner: owner, there: there, until: now.Add(keptFor)}
	for len(r.queue) > maxKept || now.After(r.kept[r.queue[0]].until) {
		delete(r.kept, r.queue[0])
		r.queue = r.queue[1:]
	}
}
