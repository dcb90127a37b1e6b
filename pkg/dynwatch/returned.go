package dynwatch

import (
	"context"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/event"
)

// A resource can return with the objects that were announced as deleted when it was
// removed: the conclusion was wrong, or etcd was restored. Events of such an object would
// have ids that a consumer has seen, and the consumer would drop them. So the target
// remembers those objects, and begins a new epoch with the first one that returns: ids of
// an epoch end in its number.

// maxFormer bounds the objects that are remembered for targets that do not run.
const maxFormer = 1 << 20

// former are objects that were announced as deleted, and might return. A nil one is empty.
type former struct {
	seed maphash.Seed
	// uids are hashes of their UIDs, and rv is the revision of their deletions.
	uids map[uint64]struct{}
	rv   uint64
}

func newFormer() *former { return &former{seed: maphash.MakeSeed(), uids: make(map[uint64]struct{})} }

func (f *former) add(uid string, rv uint64) {
	f.uids[maphash.String(f.seed, uid)] = struct{}{}
	f.rv = max(f.rv, rv)
}

func (f *former) has(uid string) bool {
	if f == nil {
		return false
	}
	_, ok := f.uids[maphash.String(f.seed, uid)]
	return ok
}

// remember notes all known objects before they are announced as deleted at revision rv.
func (t *target) remember(rv uint64) {
	t.former = newFormer()
	for e := range t.index.All() {
		t.former.add(t.index.UID(e), rv)
	}
	if len(t.former.uids) == 0 {
		t.former = nil
	}
}

// rememberEnded is remember after a restart: the log has the deletions. It skips those of
// earlier epochs, whose ids cannot come again.
func (t *target) rememberEnded(ends map[string]ended) {
	if t.firstOp != event.Added {
		return
	}
	f := newFormer()
	for _, e := range ends {
		if e.deleted != "" && e.epoch == t.Epoch {
			f.add(e.deleted, e.rv)
		}
	}
	if len(f.uids) > 0 {
		t.former = f
	}
}

// forgetFormer forgets the objects after a first list that held none of them. A target
// that selects or filters can meet them later.
func (t *target) forgetFormer() {
	if t.coverage.Filter == nil && !t.spec.selects() {
		t.former = nil
	}
}

// meetFormer begins a new epoch if an object is one of the former ones.
func (t *target) meetFormer(ctx context.Context, o *frame.Object) error {
	if !t.former.has(o.UID) {
		return nil
	}
	to := o.ResourceVersion
	if now, err := t.source.Revision(ctx); err == nil {
		to = max(to, now)
	}
	gap := event.GapInfo{From: t.former.rv, To: to, Reason: reasonUnserved, Recovered: event.RecoveredState}
	t.former = nil
	t.Epoch++
	t.status.epoch.Store(t.Epoch)
	t.logger.Warn("deleted objects returned; starting an epoch and a gap",
		"namespace", o.Namespace, "name", o.Name, "epoch", t.Epoch, "from", gap.From, "to", gap.To)
	return t.EmitGap(ctx, gap)
}

// formerly keeps the former objects of targets that do not run, as those of a wildcard
// whose resource was removed. It may be used concurrently.
type formerly struct {
	logger *slog.Logger

	mu    sync.Mutex // for a moment only
	of    map[string]*former
	order []string // of the targets, the oldest first
	count int      // of objects
}

func newFormerly(logger *slog.Logger) *formerly {
	return &formerly{logger: logger, of: make(map[string]*former)}
}

// keep keeps the objects of a target that ends.
func (f *formerly) keep(target string, objects *former) {
	if objects == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[target], f.count = objects, f.count+len(objects.uids)
	f.order = append(f.order, target)
	for f.count > maxFormer {
		oldest := f.order[0]
		f.logger.Warn("deleted objects of a target forgotten; limit reached",
			"target", oldest, "count", len(f.of[oldest].uids), "next", "if the resource returns, resnapshot it: consumers may drop its events as duplicates")
		f.remove(oldest)
	}
}

// take hands the objects of a target over to it.
func (f *formerly) take(target string) *former {
	f.mu.Lock()
	defer f.mu.Unlock()
	objects := f.of[target]
	if objects != nil {
		f.remove(target)
	}
	return objects
}

func (f *formerly) remove(target string) {
	f.count -= len(f.of[target].uids)
	delete(f.of, target)
	f.order = slices.DeleteFunc(f.order, func(name string) bool { return name == target })
}
