package recovery

import (
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
)

// maxArchived bounds the objects that are remembered for targets that do not run.
const maxArchived = 1 << 20

// Deleted are objects that were announced as deleted, and might return. A nil one is empty.
type Deleted struct {
	seed maphash.Seed
	// uids are hashes of their UIDs, and RV is the revision of their deletions.
	uids map[uint64]struct{}
	RV   uint64
}

// NewDeleted begins with none.
func NewDeleted() *Deleted {
	return &Deleted{seed: maphash.MakeSeed(), uids: make(map[uint64]struct{})}
}

// Add adds an object that was announced as deleted at revision rv.
func (d *Deleted) Add(uid string, rv uint64) {
	d.uids[maphash.String(d.seed, uid)] = struct{}{}
	d.RV = max(d.RV, rv)
}

// Has reports whether an object is one of them.
func (d *Deleted) Has(uid string) bool {
	if d == nil {
		return false
	}
	_, ok := d.uids[maphash.String(d.seed, uid)]
	return ok
}

// Count is the number of objects.
func (d *Deleted) Count() int { return len(d.uids) }

// Archive keeps the deleted objects of targets that do not run, as those of a wildcard
// whose resource was removed. It may be used concurrently.
type Archive struct {
	logger *slog.Logger

	mu    sync.Mutex // for a moment only
	of    map[string]*Deleted
	order []string // of the targets, the oldest first
	count int      // of objects
}

// NewArchive begins with none.
func NewArchive(logger *slog.Logger) *Archive {
	return &Archive{logger: logger, of: make(map[string]*Deleted)}
}

// Keep keeps the objects of a target that ends.
func (a *Archive) Keep(target string, objects *Deleted) {
	if objects == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[target], a.count = objects, a.count+len(objects.uids)
	a.order = append(a.order, target)
	for a.count > maxArchived {
		oldest := a.order[0]
		a.logger.Warn("deleted objects of a target forgotten; limit reached",
			"target", oldest, "count", len(a.of[oldest].uids), "next", "if the resource returns, resnapshot it: consumers may drop its events as duplicates")
		a.remove(oldest)
	}
}

// Take hands the objects of a target over to it.
func (a *Archive) Take(target string) *Deleted {
	a.mu.Lock()
	defer a.mu.Unlock()
	objects := a.of[target]
	if objects != nil {
		a.remove(target)
	}
	return objects
}

func (a *Archive) remove(target string) {
	a.count -= len(a.of[target].uids)
	delete(a.of, target)
	a.order = slices.DeleteFunc(a.order, func(name string) bool { return name == target })
}
