package target

import (
	"context"
	"fmt"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
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
func (t *Target) refused(err error) (state, error) {
	r := &t.refusals
	r.count++
	r.oldest = listwatch.OldestNamed(err)
	if r.count == 1 {
		t.Logger.Info("history expired; trying another connection", "resource_version", t.position.rv, "oldest", r.oldest)
		return following{}, nil
	}
	next := recovering{lost: &loss{reason: reasonExpired, from: t.position.resume(), oldest: r.oldest}}
	if r.count > 2 {
		return next, fmt.Errorf("resume the watch after a reconcile: %w", err)
	}
	return next, nil
}

// recover makes up for lost history as far as lists and etcd have it, and declares the rest as a gap. The list is
// of the revision at which the next watch begins: the oldest one that the API server names, or, if it names none or
// etcd has compacted that, now.
func (t *Target) recover(ctx context.Context, l *loss) (state, error) {
	stay := recovering{lost: l}
	if err := t.Clients.Identity.Check(ctx); err != nil {
		return stay, err
	}
	l.incomplete = l.incomplete || t.Coverage.Leaves() // what such namespaces had is not compared any more
	t.shown.set(status.Syncing, "reconciling from a list, reason: "+l.reason)
	if l.declares() { // else Compare does, once etcd has confirmed the list
		if err := t.markLost(ctx); err != nil {
			return stay, err
		}
	}
	if l.tried {
		if err := t.answers(ctx, l); err != nil {
			return stay, err
		}
	}
	l.tried = true
	next, err := t.recoverBy(ctx, l)
	if lasts(err) {
		l.failures++
	}
	return next, err
}

// answers reports whether the API server answers, so that what fails is not an outage.
func (t *Target) answers(ctx context.Context, l *loss) error {
	if l.reason == reasonRollback { // the position is of the other history
		_, err := t.Discovery.Source.Revision(ctx)
		return err
	}
	// An API server refuses a list at a revision that etcd does not have any more: without this check such a
	// list would be requested until etcd has reached that revision again.
	return t.checkRollback(ctx)
}

// recoverBy compares a list, of the kind that has not failed too often.
func (t *Target) recoverBy(ctx context.Context, l *loss) (state, error) {
	switch {
	case l.reason == reasonRollback:
		return t.recoverAll(ctx, l)
	case !l.declares():
		return t.compareAudited(ctx, l)
	}
	at := l.oldest
	switch {
	case l.failures >= failuresOfMetadata:
		l.incomplete = true
		return t.recoverAll(ctx, l)
	case l.failures >= failuresOfExact:
		at = 0
	case l.reason == reasonAudit:
		at = t.position.rv
	case t.refusals.count > maxRefusals: // the cache moves on too fast
		at, l.incomplete = 0, true
	case at < l.from: // a watch begins behind the position; a revision before it would bring nothing
		at = 0
	}
	if at != 0 {
		next, err := t.recoverAt(ctx, l, at)
		if !listwatch.Expired(err) && !listwatch.Unsupported(err) {
			return next, err
		}
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
	p := t.Objects.NewPass(Pass{At: at, Newcomer: event.Added, Replay: true, Brief: !l.declares()})
	if t.Coverage.Outdated() { // the log has all other objects up to there
		p.Newcomer, p.Cause = event.Entered, t.Coverage.At()
	}
	rv, err := t.Compare(ctx, p)
	return t.recoveredBy(ctx, l, p, rv, err)
}

// recoverAll compares the whole objects of a list of now: after a rollback the same revision can be another state,
// and some servers have no other lists.
func (t *Target) recoverAll(ctx context.Context, l *loss) (state, error) {
	p := t.Objects.NewPass(Pass{Newcomer: event.Added, Replay: true, Rollback: l.reason == reasonRollback})
	rv, err := t.list(ctx, p, &listwatch.Listing{})
	return t.recoveredBy(ctx, l, p, rv, err)
}

// recoveredBy ends what a list at rv lacks, and with that the recovery.
func (t *Target) recoveredBy(ctx context.Context, l *loss, p *Pass, rv uint64, err error) (state, error) {
	if err == nil && !p.Rollback && rv < t.position.rv {
		err = t.behindPosition(ctx)
	}
	if err == nil {
		err = t.Objects.endMissing(ctx, p, rv)
	}
	if err != nil {
		return recovering{lost: l}, err
	}
	t.position.forgetEnds(rv)
	return following{}, t.declare(ctx, l, rv)
}

// Compare does a sweep with metadata only, walks back from what differs, and then
// fetches the bodies of it. It returns the list's revision.
func (t *Target) Compare(ctx context.Context, s *Pass) (uint64, error) {
	differing, rv, err := t.differences(ctx, s)
	if err != nil {
		return rv, err
	}
	s.At = rv
	var queries []recovery.Query
	if l := t.loop.loss(); l != nil && l.walks() && t.refusals.count <= maxRefusals {
		queries = t.Objects.queries(s, l, differing, t.Limits.Requests)
	}
	if err := t.walk(ctx, queries); err != nil {
		return rv, err
	}
	if t.loop.loss() != nil { // what is fetched may hide revisions
		if err := t.markLost(ctx); err != nil {
			return rv, err
		}
	}
	return rv, t.fetch(ctx, s, differing)
}

// declare ends a recovery: state and deletions are known as of rv. It emits a gap for what lay between, unless
// nothing did.
func (t *Target) declare(ctx context.Context, l *loss, rv uint64) error {
	gap := event.GapInfo{From: l.from, To: rv, Reason: l.reason, Recovered: l.recovered()}
	if t.Coverage.Outdated() {
		t.Coverage.Widen(&gap)
	}
	gap.To = max(gap.To, t.Coverage.LeavesAt()) // the list lacks what leaves, and frames bring a part only
	if l.declares() && (!l.walks() || l.from < rv) {
		if err := t.Writer.EmitGap(ctx, gap); err != nil {
			return err
		}
		t.Logger.Warn("history lost; declaring a gap", "reason", l.reason, "from", l.from, "to", rv, "recovered", gap.Recovered,
			"runbook", display.GapRunbook(l.reason))
	} else {
		t.Logger.Info("no revision is missing; no gap", "to", rv)
	}
	if l.reason == reasonAudit && l.found > 0 {
		t.Audits.divergence(l, l.found)
	}
	if err := t.Writer.Flush(ctx); err != nil {
		return err
	}
	t.position.set(rv)
	t.position.proven = 0
	t.Coverage.Compared(rv)
	t.position.clean = rv
	t.Status.Progressed()
	if t.refusals.count <= 2 {
		t.pause.reset()
	}
	return nil
}
