package dynwatch

import (
	"context"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/pkg/event"
)

// phase is how far making up for lost history has come.
type phase int

const (
	// asking: the watch is tried once more, on a connection of its own, which may
	// reach an API server that still has the history.
	asking phase = iota
	// reconciling: a list is compared with the index. From here on the watch must
	// not be resumed from before: the index is ahead of it.
	reconciling
	// settling: the watch runs, and has not yet passed the list's revision.
	settling
)

// lost is a stretch of history that the API server no longer has. It begins
// behind the cursor of the moment of the loss.
type lost struct {
	phase  phase
	from   uint64
	reason string
	// oldest is a revision from which a watch can begin, as the API server's
	// error names it; 0 if it names none.
	oldest uint64
	// Settling: entries that the list at revision settled did not hold. A frame
	// may still explain them; what none has explained by then is deleted.
	settled uint64
	absent  []absentEntry
	// blind: some deletions could not be told.
	blind bool
}

type absentEntry struct {
	entry *entry
	rv    uint64
}

// maxReconciles is how often a reconcile aims at the oldest revision of the watch
// cache before it takes a list and watches from there.
const maxReconciles = 3

// Why history is lost: the reason of a gap.
const (
	// reasonExpired: the API server no longer has it.
	reasonExpired = "expired"
	// reasonRollback: the API server's storage went back to an older state.
	reasonRollback = "rollback"
	// reasonUnserved: the resource was removed while no watch was open.
	reasonUnserved = "unserved"
	// reasonBroken: the first list had to be begun anew.
	reasonBroken = "list-restarted"
	// reasonJournal: the journal has lost events, or where the target stood.
	reasonJournal = "journal"
	// reasonSelection: the selectors were changed while informd was down.
	reasonSelection = "selection"
)

// expired reports whether err says that a revision is gone.
func expired(err error) bool {
	return err != nil && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err))
}

// oldestInMessage finds Y in "too old resource version: X (Y)", which comes from
// the API server's watch cache (storage/cacher/watch_cache.go): the oldest
// revision from which it can serve a watch. etcd's own error names none.
var oldestInMessage = regexp.MustCompile(`too old resource version: \d+ \((\d+)\)`)

// expire notes that the watch could not be resumed and decides what comes next.
func (t *target) expire(err error) error {
	var oldest uint64
	if m := oldestInMessage.FindStringSubmatch(err.Error()); m != nil {
		oldest, _ = parseRV(m[1]) // digits; too many of them leave 0: not known
	}
	switch l := t.lost; {
	case l == nil:
		t.logger.Info("history expired, asking another connection", "resource_version", t.cursor, "oldest", oldest)
		t.lost = &lost{phase: asking, from: t.resume(), reason: reasonExpired, oldest: oldest}
	default:
		l.phase, l.oldest, l.absent = reconciling, oldest, nil
	}
	return nil
}

// reconcile makes up for lost history as far as lists can: final states and
// deletions. Which list depends on what the API server still has.
func (t *target) reconcile(ctx context.Context) error {
	t.setState(Syncing, "history "+t.lost.reason+", comparing with a list")
	oldest := t.lost.oldest
	if t.lost.reason == reasonRollback {
		return t.reconcileRollback(ctx)
	}
	if oldest == 0 || t.reconciles >= maxReconciles {
		return t.reconcileNow(ctx)
	}
	t.reconciles++
	err := t.reconcileAt(ctx, oldest)
	if expired(err) || unsupported(err) {
		err = t.reconcileAround(ctx, oldest)
	}
	if unsupported(err) {
		err = t.reconcileNow(ctx)
	}
	return err
}

// reconcileAt is the case in which etcd still holds the oldest revision of the
// watch cache: list there, watch from there.
func (t *target) reconcileAt(ctx context.Context, oldest uint64) error {
	s := t.newSweep(sweep{at: oldest, newcomer: event.Added, replay: true})
	rv, err := t.compare(ctx, s)
	if err != nil {
		return err
	}
	if err := t.endMissing(ctx, s, rv); err != nil {
		return err
	}
	return t.found(ctx, rv)
}

// reconcileAround is the case in which etcd has compacted that revision: a list
// of now announces what has not changed since, the watch brings the rest, and
// what neither explains is deleted once the watch has passed the list.
func (t *target) reconcileAround(ctx context.Context, oldest uint64) error {
	s := t.newSweep(sweep{horizon: oldest, newcomer: event.Added, replay: true})
	rv, err := t.compare(ctx, s)
	if err != nil {
		return err
	}
	if rv < t.lost.from {
		t.rollBack()
		return nil
	}
	l := t.lost
	l.phase, l.settled = settling, rv
	for _, e := range t.missing(s) {
		l.absent = append(l.absent, absentEntry{e, e.rv})
	}
	t.setCursor(oldest)
	return t.settle(ctx)
}

// reconcileNow is the case in which the API server names no revision, or its
// cache moves on too fast: list now, watch from there.
func (t *target) reconcileNow(ctx context.Context) error {
	s := t.newSweep(sweep{newcomer: event.Added, replay: true})
	rv, err := t.compare(ctx, s)
	if unsupported(err) {
		s = t.newSweep(sweep{newcomer: event.Added, replay: true})
		rv, err = t.list(ctx, s, &listing{})
	}
	if err != nil {
		return err
	}
	if rv < t.lost.from {
		t.rollBack()
		return nil
	}
	if err := t.endMissing(ctx, s, rv); err != nil {
		return err
	}
	return t.found(ctx, rv)
}

// reconcileRollback compares everything, content too: the same revision number
// may now mean another state.
func (t *target) reconcileRollback(ctx context.Context) error {
	s := t.newSweep(sweep{newcomer: event.Added, replay: true, rollback: true})
	rv, err := t.list(ctx, s, &listing{})
	if err != nil {
		return err
	}
	if err := t.endMissing(ctx, s, rv); err != nil {
		return err
	}
	return t.found(ctx, rv)
}

// settle ends a reconcile once the watch has passed the list's revision.
func (t *target) settle(ctx context.Context) error {
	l := t.lost
	if l == nil || l.phase != settling || t.cursor < l.settled {
		return nil
	}
	for _, a := range l.absent {
		if t.index.get(a.entry.namespace, a.entry.name) != a.entry || a.entry.rv != a.rv {
			continue // a frame explained it
		}
		if err := t.endAbsent(ctx, a.entry, l.settled); err != nil {
			return err
		}
	}
	return t.found(ctx, t.cursor)
}

// found ends the making up: state and deletions are known as of rv, what lay
// between is declared.
func (t *target) found(ctx context.Context, rv uint64) error {
	l := t.lost
	to := rv
	if l.phase == settling {
		to = l.oldest // from there on the watch brought everything
	}
	gap := event.GapInfo{From: l.from, To: to, Reason: l.reason, Recovered: event.RecoveredState}
	if l.blind {
		gap.Recovered = event.RecoveredPartial
	}
	if err := t.emitGap(ctx, gap); err != nil {
		return err
	}
	if err := t.flush(ctx); err != nil {
		return err
	}
	t.logger.Warn("history was lost and made up for by a list", "reason", l.reason, "from", l.from, "to", to)
	t.lost = nil
	t.setCursor(rv)
	t.status.progressNow()
	t.resetPause()
	return t.markNow(ctx)
}

// checkRollback compares the resource's newest revision with the cursor. A watch
// from the future is not refused, it is silent, so this comes before each watch.
func (t *target) checkRollback(ctx context.Context) (bool, error) {
	rv, err := t.source.revision(ctx)
	if err != nil || rv >= t.cursor {
		return false, err
	}
	t.rollBack()
	return true, nil
}

// rollBack notes that the API server's storage is older than the cursor: it was
// restored from a copy.
func (t *target) rollBack() {
	t.epoch++
	t.status.epoch.Store(t.epoch)
	t.logger.Error("the API server's storage went back in time", "resource_version", t.cursor, "epoch", t.epoch)
	l := &lost{phase: reconciling, from: t.cursor, reason: reasonRollback}
	if t.lost != nil && t.lost.phase != asking {
		l.from, l.blind = t.lost.from, t.lost.blind // that gap is not declared yet
	}
	t.lost, t.undecided = l, nil
	clear(t.ended) // revisions of another history
}
