package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
)

// refusals are the 410s in a row since a watch has brought anything, and the oldest revision that the last one
// named: the API server has its history from there on.
type refusals struct {
	count  int
	oldest uint64
}

// maxRefusals is how often in a row a recovery aims at the oldest revision of the watch cache, and walks, before
// it takes a list and watches from there. The first 410 is not followed by one.
const maxRefusals = 4

// refused decides what follows a watch that cannot be resumed (410 Gone). Another API server may still have the
// history, so that a watch over another connection comes first. Then the history from the position on is lost. The
// error says that a watch after a recovery fared no better, so that the target pauses first.
func (t *Target) refused(s *following, err error) (state, error) {
	if s.open == nil && t.Coverage.GiveUp() {
		return s, nil
	}
	r := &t.refusals
	r.count++
	r.oldest = listwatch.OldestNamed(err)
	l := s.open
	switch {
	case l == nil && r.count == 1:
		t.Logger.Info("history expired; trying another connection", "resource_version", t.Cursor, "oldest", r.oldest)
		return s, nil
	case l == nil:
		l = &loss{reason: reasonExpired, from: t.resume()}
	}
	l.oldest, l.settled, l.absent = r.oldest, 0, nil
	if r.count > 2 {
		return recovering{l}, fmt.Errorf("resume the watch after a reconcile: %w", err)
	}
	return recovering{l}, nil
}

// recover makes up for lost history as far as lists and etcd have it, and declares the rest as a gap. The list is
// of the revision at which the next watch begins: the oldest one that the API server names, or now. If etcd has
// compacted that revision, the list is of now, and the watch, which begins before it, explains the difference.
func (t *Target) recover(ctx context.Context, l *loss) (state, error) {
	stay := recovering{l}
	if err := t.Clients.Identity.Check(ctx); err != nil {
		return stay, err
	}
	l.incomplete = l.incomplete || t.Coverage.Leaves() // what such namespaces had is not compared any more
	t.setState(status.Syncing, "reconciling from a list, reason: "+l.reason)
	if err := t.markLost(ctx); err != nil {
		return stay, err
	}
	if l.reason == reasonRollback {
		return t.recoverAll(ctx, l)
	}
	if l.tried {
		// An API server refuses a list at a revision that etcd does not have any more: without this check such a
		// list would be requested until etcd has reached that revision again.
		if err := t.checkRollback(ctx); err != nil {
			return stay, err
		}
	}
	l.tried = true
	at := l.oldest
	switch {
	case l.reason == reasonAudit:
		at = t.Cursor
	case t.refusals.count > maxRefusals: // the cache moves on too fast
		at, l.incomplete = 0, true
	case at < l.from: // a watch begins behind the position; a revision before it would bring nothing
		at = 0
	}
	if at != 0 && !t.Coverage.Outdated() { // else only the watch knows what is newer than the log
		next, err := t.recoverAt(ctx, l, at)
		if !listwatch.Expired(err) && !listwatch.Unsupported(err) {
			return next, err
		}
	}
	if at != 0 && l.reason != reasonAudit {
		next, err := t.recoverAround(ctx, l, at)
		if !listwatch.Unsupported(err) {
			return next, err
		}
	}
	if l.unsure { // the watch will not bring what is between the position and a list of now
		l.unsure, l.from = false, max(l.from, t.resume())
	}
	next, err := t.recoverAt(ctx, l, 0)
	if listwatch.Unsupported(err) {
		l.incomplete = true
		return t.recoverAll(ctx, l)
	}
	return next, err
}

// recoverAt compares a list at a revision, now if it is 0. The next watch begins there.
func (t *Target) recoverAt(ctx context.Context, l *loss, at uint64) (state, error) {
	p := t.NewPass(Pass{At: at, Newcomer: event.Added, Replay: true})
	rv, err := t.Compare(ctx, p)
	return t.recoveredBy(ctx, l, p, rv, err)
}

// recoverAll compares the whole objects of a list of now: after a rollback the same revision can be another state,
// and some servers have no other lists.
func (t *Target) recoverAll(ctx context.Context, l *loss) (state, error) {
	p := t.NewPass(Pass{Newcomer: event.Added, Replay: true, Rollback: l.reason == reasonRollback})
	rv, err := t.list(ctx, p, &listwatch.Listing{})
	return t.recoveredBy(ctx, l, p, rv, err)
}

// recoveredBy ends what a list at rv lacks, and with that the recovery. A wrong list does not end the watch that an
// audit has found it behind the position: there may be no other API server.
func (t *Target) recoveredBy(ctx context.Context, l *loss, p *Pass, rv uint64, err error) (state, error) {
	if err == nil && !p.Rollback && rv < t.Cursor {
		err = t.behindPosition(ctx)
	}
	if err == nil {
		err = t.endMissing(ctx, p, rv)
	}
	if l.reason == reasonAudit && errors.Is(err, listwatch.ErrWrongList) {
		return new(following), nil
	}
	if err != nil {
		return recovering{l}, err
	}
	t.forgetEnds(rv)
	return new(following), t.declare(ctx, l, rv, rv)
}

// recoverAround is the case in which etcd has compacted the revision from which the API server can watch: a list
// of now announces what has not changed since, the watch brings the rest, and what neither explains is deleted once
// the watch has passed the list. There is nothing to walk: etcd has forgotten the whole of the range.
func (t *Target) recoverAround(ctx context.Context, l *loss, oldest uint64) (state, error) {
	l.incomplete = true
	p := t.NewPass(Pass{Horizon: oldest, Newcomer: event.Added, Replay: true})
	if t.Coverage.Outdated() { // the log has all other objects up to there
		p.Newcomer, p.Cause = event.Entered, t.Coverage.At()
	}
	rv, err := t.Compare(ctx, p)
	if err == nil && rv < t.Cursor {
		err = t.behindPosition(ctx)
	}
	if err != nil {
		return recovering{l}, err
	}
	l.settled = rv
	for _, e := range t.missing(p) {
		l.absent = append(l.absent, absentEntry{t.Index.Handle(e), e.RV})
	}
	// What else ended at that revision is absent: no watch need begin before it.
	t.forgetEnds(oldest)
	t.setCursor(oldest)
	s := &following{open: l}
	return s, t.settle(ctx, s)
}

// settle ends a recovery once the watch has passed the list's revision.
func (t *Target) settle(ctx context.Context, s *following) error {
	l := s.open
	if l == nil || t.Cursor < l.settled {
		return nil
	}
	for _, a := range l.absent {
		e := t.Index.ByHandle(a.entry)
		if e == nil || e.RV != a.rv {
			continue // a frame explained it
		}
		key := index.Key(t.Index.Namespace(e), t.Index.Name(e))
		if err := t.endAbsent(ctx, e, l.settled); err != nil {
			return err
		}
		// The watch has yet to bring the other deletions at the list's revision. It must not
		// end these objects again.
		if t.resume() < l.settled && t.Index.ByHandle(a.entry) == nil {
			t.ended[key] = l.settled
		}
	}
	if err := t.declare(ctx, l, l.oldest, t.Cursor); err != nil { // from the oldest on the watch brought everything
		return err
	}
	s.open = nil
	return t.markNow(ctx)
}

// settleOpen settles what is open while the watch follows.
func (t *Target) settleOpen(ctx context.Context) error {
	if s, ok := t.state.(*following); ok {
		return t.settle(ctx, s)
	}
	return nil
}

// Compare does a sweep with metadata only, walks back from what differs, and then
// fetches the bodies of it. It returns the list's revision.
func (t *Target) Compare(ctx context.Context, s *Pass) (uint64, error) {
	differing, rv, err := t.differences(ctx, s)
	if err != nil {
		return rv, err
	}
	if s.At = rv; s.Horizon == 0 {
		if err := t.walk(ctx, t.queries(s, differing)); err != nil {
			return rv, err
		}
	}
	if t.loss() != nil { // what is fetched may hide revisions
		if err := t.markLost(ctx); err != nil {
			return rv, err
		}
	}
	return rv, t.fetch(ctx, s, differing)
}

// declare ends a recovery: state and deletions are known as of rv. It emits a gap for what lay between and
// revision to, unless nothing did.
func (t *Target) declare(ctx context.Context, l *loss, to, rv uint64) error {
	gap := event.GapInfo{From: l.from, To: to, Reason: l.reason, Recovered: l.recovered()}
	if t.Coverage.Outdated() {
		t.Coverage.Widen(&gap)
	}
	if !l.unsure && (!l.walks() || l.from < to) {
		if err := t.EmitGap(ctx, gap); err != nil {
			return err
		}
		t.Logger.Warn("history lost; declaring a gap", "reason", l.reason, "from", l.from, "to", to, "recovered", gap.Recovered,
			"runbook", display.GapRunbook(l.reason))
	} else {
		t.Logger.Info("no revision is missing; no gap", "to", to)
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	t.setCursor(rv)
	t.proven = 0
	t.Coverage.Compared(rv)
	t.clean = rv
	t.Status.Progressed()
	if t.refusals.count <= 2 {
		t.resetPause()
	}
	return nil
}
