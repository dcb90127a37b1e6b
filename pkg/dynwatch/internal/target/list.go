package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// Pass is one pass over a list, compared with the index.
type Pass struct {
	// Number marks the entries that the list holds, and Round those that were announced because of it: it is the number
	// of the first pass where a list continues one that broke off.
	Number, Round uint32
	// At is the exact revision that [Target.Compare] lists, 0 for what etcd holds now.
	At uint64
	// Brief is that of the [listwatch.Listing].
	Brief bool
	// Namespace is the one that is listed, empty for all.
	Namespace string
	// Newcomer is the operation for objects that the index does not hold. Cause is the revision of the
	// Namespace by which they have entered.
	Newcomer event.Op
	Cause    uint64
	Replay   bool
	// Repeat is the run of a re-snapshot, 0 if the pass is not one: objects that are as they are listed are
	// announced again, and counted by Repeated.
	Repeat   uint64
	Repeated int
	// Rollback: the index's revisions are of another history than the list's.
	Rollback bool
	// Unreadable: the list held something whose identity could not be read, so that
	// what is missing in it is not known.
	Unreadable bool
	// confirmed: etcd has confirmed what the list lacks.
	confirmed bool
	// against is what the list holds against the history that was announced.
	against recovery.Contradictions
}

// NewPass gives a pass the next number, so that entries which it marks differ from those of passes before.
func (ob *objects) NewPass(s Pass) *Pass {
	ob.sweeps++
	s.Number = ob.sweeps
	s.Round = cmp.Or(s.Round, s.Number)
	return &s
}

// list streams a list from the position of l and emits the differences from the
// index, except missing objects: see endMissing. It returns the list's
// revision.
func (t *Target) list(ctx context.Context, s *Pass, l *listwatch.Listing) (uint64, error) {
	if err := t.Clients.Identity.Check(ctx); err != nil {
		return 0, err
	}
	memory := frame.Memory{Most: emit.BatchBytes}
	l.Memory = &memory
	rv, err := t.Discovery.Source.List(ctx, l, t.Discovery.Source.Frames, func(o *frame.Object, bad *frame.Malformed) error {
		t.Status.Progressed()
		var err error
		switch {
		case bad != nil:
			err = t.rejectListed(ctx, s, bad)
		case t.Coverage.Filter.Covers(o.Namespace):
			err = t.observe(ctx, s, o)
		}
		if !t.Writer.Pending() {
			memory.Reset() // what was listed so far is in the log
		}
		return err
	})
	if err == nil {
		err = t.Clients.Identity.Check(ctx)
	}
	if err == nil && !s.Rollback {
		err = t.checkHistory(ctx, &s.against, rv)
	}
	// What was seen before a failure is announced: the next attempt builds on it.
	return rv, errors.Join(err, t.Writer.Flush(ctx))
}

// rejectListed keeps an object that cannot be passed on. If another one had its
// name before, that one's end comes out all the same.
func (t *Target) rejectListed(ctx context.Context, s *Pass, bad *frame.Malformed) error {
	if t.Discovery.Source.Unidentified(bad) {
		s.Unreadable = true
	} else if !t.Coverage.Filter.Covers(bad.Namespace) {
		return nil
	} else if err := t.Objects.takeUnreadable(ctx, s, bad); err != nil {
		return err
	}
	return t.rejections.reject(ctx, bad)
}

// takeUnreadable compares the identity of a listed object with the index.
func (ob *objects) takeUnreadable(ctx context.Context, s *Pass, bad *frame.Malformed) error {
	k, e := ob.listed(s, index.ID{Namespace: bad.Namespace, Name: bad.Name, UID: bad.UID})
	if s.Repeat != 0 {
		s.Unreadable = s.Unreadable || k.Object == decide.Same || bad.UID == "" && e != nil
	}
	if bad.UID == "" {
		return nil
	}
	if !s.Rollback {
		s.against.Note(k, listwatch.Listed{Namespace: bad.Namespace, Name: bad.Name, UID: bad.UID, RV: bad.ResourceVersion})
	}
	if s.Repeat != 0 {
		return nil
	}
	d := decide.Decide(k, decide.Seen{Kind: decide.Listed, RV: bad.ResourceVersion, Unreadable: true}, decide.Rules{})
	if d.Replaced && ob.loop.lostBy(reasonAudit) {
		ob.audits.diverged(ob.loop.loss(), ob.index.ID(e), d.ReplacedAt)
	}
	_, err := ob.endReplaced(ctx, d, e)
	return err
}

// observe compares one listed object with the index and emits the difference.
func (t *Target) observe(ctx context.Context, s *Pass, o *frame.Object) error {
	k, e := t.Objects.listed(s, emit.IDOf(o))
	if !s.Rollback {
		if err := t.Objects.noteListed(ctx, &s.against, k, listwatch.ListedOf(o)); err != nil {
			return err
		}
	}
	switch {
	case s.Repeat == 0:
	case k.Object != decide.Same, e.Round == s.Round:
		return nil // the watch brings it, or has missed it, or the list is wrong: it is for an audit to tell
	case o.ResourceVersion < k.Newest:
		return nil // another list follows
	}
	left, err := t.Objects.leftBefore(ctx, s, k, o)
	if err != nil {
		return err
	}
	k.Left = left != 0
	d := decide.Decide(k, decide.Seen{Kind: decide.Listed, RV: o.ResourceVersion}, t.Objects.rules(s, e))
	if e, err = t.Objects.endReplaced(ctx, d, e); err != nil {
		return err
	}
	switch {
	case d.Op == "":
		return nil
	case e == nil:
		return t.announceListed(ctx, s, d, o, cmp.Or(left, s.Cause, o.ResourceVersion))
	case d.Op == event.Snapshot:
		s.Repeated++
		return t.Writer.Repeat(ctx, o, e, cmp.Or(s.Repeat, t.loop.first().run()), s.Round) // consumers need each object, also what change filters would leave out
	case d.Compare:
		if same, err := t.Writer.SameContent(ctx, e, o); same || err != nil {
			return err
		}
	}
	return t.Objects.Announce(ctx, d.Op, o, e, true, o.ResourceVersion)
}

// listed is what the log holds of a listed object's name, for a pass that marks the entry.
func (ob *objects) listed(s *Pass, id index.ID) (decide.Known, *index.Entry) {
	k, e := ob.knownOf(id)
	if e != nil {
		e.Sweep = s.Number
	}
	switch {
	case s.Rollback:
		k.Past, k.Restored = 0, k.Object == decide.Other || e != nil && uint64(e.Epoch) != ob.writer.Epoch
	case s.Namespace != "":
		k.Past = 0 // by frames of a time in which the namespace did not match
	case k.Object != decide.Same:
		k.Past = max(k.Past, ob.coverage.ListedAt(id.Namespace))
	}
	return k, e
}

// rules are those for a listed object, under whose name the index holds e.
func (ob *objects) rules(s *Pass, e *index.Entry) decide.Rules {
	r := decide.Rules{Arrival: s.Newcomer, Selects: ob.discovery.spec.Selects() && s.found() && s.Newcomer != event.Entered}
	if ob.loop.edited(ob.coverage) {
		r.Arrival, r.Selects = event.Snapshot, false
	}
	switch {
	case e == nil:
	case s.Repeat != 0:
		r.Repeat = true
	case ob.loop.first().repeats():
		r.Repeat = e.Round != s.Round
	}
	return r
}

// announceListed announces a listed object that the index does not hold.
func (t *Target) announceListed(ctx context.Context, s *Pass, d decide.Decision, o *frame.Object, cause uint64) error {
	op, _, err := t.lookups.ask(ctx, d, o, t.position.rv)
	gone := false
	if err == nil && s.Newcomer == event.Entered {
		at := max(t.position.rv, s.At) // the log can be ahead of the position
		gone, err = t.checkReturned(ctx, listwatch.ListedOf(o), at, at)
	}
	if gone || err != nil {
		return err
	}
	if err := t.Objects.Announce(ctx, op, o, nil, s.Replay, cause); err != nil {
		return err
	}
	t.Index.Get(o.Namespace, o.Name).Sweep = s.Number
	return nil
}

// endMissing ends what the index holds and the list did not: rv is the list's
// revision.
func (ob *objects) endMissing(ctx context.Context, s *Pass, rv uint64) error {
	if !s.Rollback && rv < max(ob.position.rv, ob.loop.first().began()) {
		return fmt.Errorf("%w (list at %d)", errBehind, rv) // what it lacks may have been born since
	}
	gone := ob.absent(s, rv)
	if err := ob.confirm(ctx, s, gone, rv); err != nil {
		return err
	}
	for _, e := range gone {
		if ob.loop.lostBy(reasonAudit) && ob.coverage.Filter.Covers(ob.index.Namespace(e)) {
			ob.audits.diverged(ob.loop.loss(), ob.index.ID(e), rv)
		}
		if err := ob.endAbsent(ctx, e, rv); err != nil {
			return err
		}
	}
	return ob.writer.Flush(ctx)
}

// confirm has etcd confirm what a list at rv lacks, unless it has.
func (ob *objects) confirm(ctx context.Context, s *Pass, gone []*index.Entry, rv uint64) error {
	if s.confirmed {
		return nil
	}
	err := ob.lookups.confirmGone(ctx, gone, rv)
	s.confirmed = err == nil
	return err
}

// absent is [objects.missing] without what was born later than the list at rv: the log has that from before
// the target resumed.
func (ob *objects) absent(s *Pass, rv uint64) []*index.Entry {
	return slices.DeleteFunc(ob.missing(s), func(e *index.Entry) bool { return ob.decideAbsent(e, rv).Op == "" })
}

// missing returns the entries that a pass has not seen, none if an object was unreadable.
func (ob *objects) missing(s *Pass) []*index.Entry {
	if s.Unreadable {
		ob.logger.Warn("list has unreadable objects; deletions not emitted yet")
		if l := ob.loop.loss(); l != nil {
			l.unreadable = true
		}
		return nil
	}
	var gone []*index.Entry
	for e := range ob.index.All() {
		if s.Namespace != "" && s.Namespace != ob.index.Namespace(e) {
			continue
		}
		if e.Sweep != s.Number {
			gone = append(gone, e)
		}
	}
	return gone
}

// found reports whether what a pass lists can have changed since the target watched.
func (s *Pass) found() bool { return s.Replay && !s.Rollback }

// leftBefore is the cause of a listed object's event if the log says that it has left the selection, 0
// otherwise.
func (ob *objects) leftBefore(ctx context.Context, s *Pass, k decide.Known, o *frame.Object) (cause uint64, err error) {
	returns := ob.mayReturn(o.Namespace, o.Name)
	if k.Object != decide.Unknown || !s.found() || !returns && (!ob.rules(s, nil).Selects || o.ResourceVersion <= k.Past) {
		return 0, nil
	}
	cause, err = ob.writer.LeftAt(ctx, emit.IDOf(o))
	switch {
	case cause == 0 || err != nil:
		return 0, err
	case returns:
		return max(cause, ob.coverage.At()), nil // its namespace matches at that one
	default:
		return o.ResourceVersion, nil
	}
}

// BodiesByName is up to how many differing objects are fetched one by one after
// a comparison; beyond it a whole list is cheaper.
const BodiesByName = 100

// differences does a sweep with metadata only. It returns the list's revision. What the list lacks
// is confirmed.
func (t *Target) differences(ctx context.Context, s *Pass) (differing []listwatch.Listed, rv uint64, err error) {
	rv, err = t.Discovery.Source.ListMetadata(ctx, &listwatch.Listing{At: s.At, Brief: s.Brief}, func(m listwatch.Listed) error {
		t.Status.Progressed()
		k, _ := t.Objects.listed(s, index.ID{Namespace: m.Namespace, Name: m.Name, UID: m.UID})
		if err := t.Objects.noteListed(ctx, &s.against, k, m); err != nil {
			return err
		}
		k.Left = k.Object == decide.Unknown && t.Objects.mayReturn(m.Namespace, m.Name) // observe asks the log
		d := decide.Decide(k, decide.Seen{Kind: decide.Listed, RV: m.RV}, decide.Rules{Arrival: s.Newcomer})
		if d.Replaced || d.Op != "" {
			differing = append(differing, m)
		}
		return nil
	})
	if err == nil {
		err = t.Clients.Identity.Check(ctx)
	}
	if err == nil {
		err = t.checkHistory(ctx, &s.against, rv)
	}
	if err == nil {
		err = t.Objects.confirm(ctx, s, t.Objects.absent(s, rv), rv)
	}
	return differing, rv, err
}

// fetch reads the listed states of what differs, one by one if that is not much,
// else by a list, and emits them.
func (t *Target) fetch(ctx context.Context, s *Pass, differing []listwatch.Listed) error {
	if len(differing) > BodiesByName {
		_, err := t.list(ctx, s, &listwatch.Listing{At: s.At, Brief: s.Brief})
		return err
	}
	for _, d := range differing {
		o, ok, err := t.Discovery.Source.MatchAt(ctx, d.Namespace, d.Name, s.At)
		var bad *frame.Malformed
		switch {
		case errors.As(err, &bad):
			err = t.rejectListed(ctx, s, bad)
		case err == nil && ok:
			err = t.observe(ctx, s, &o)
		} // else the list was wrong: etcd does not have it
		if err != nil {
			return err
		}
	}
	return t.Writer.Flush(ctx)
}

// matchesList reports whether a list of now equals the index. The index has no state of an object that was rejected.
func (t *Target) matchesList(ctx context.Context) (rv uint64, same bool, err error) {
	same, n := true, 0
	var against recovery.Contradictions
	rv, err = t.Discovery.Source.ListMetadata(ctx, new(listwatch.Listing), func(m listwatch.Listed) error {
		e := t.Index.Get(m.Namespace, m.Name)
		k := t.Index.Known(e, m.UID)
		against.Note(k, m)
		rejected := t.rejections.has(m.UID, m.RV)
		if rejected && k.Object == decide.Unknown {
			return nil
		}
		n++
		same = same && k.Object == decide.Same && (k.Newest == m.RV || rejected || t.Objects.mayHaveHeldBack(e, m.RV))
		return nil
	})
	if listwatch.Expired(err) {
		// The list took too long. The watch has lost no history, as 410 of a watch says.
		err = fmt.Errorf("compare with a list: %v", err) //nolint:errorlint // see above
	}
	if err == nil {
		err = t.Clients.Identity.Check(ctx)
	}
	if err == nil {
		err = t.checkHistory(ctx, &against, rv)
	}
	return rv, same && n == t.Index.Len(), err
}
