package dynwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// sweep is one pass over a list, compared with the index.
type sweep struct {
	// number marks the entries that the list holds.
	number uint32
	// at is the exact revision that is listed, 0 for what etcd holds now.
	at uint64
	// newcomer is the operation for objects that the index does not hold.
	newcomer event.Op
	replay   bool
	// horizon, if not 0, leaves objects of newer revisions to the watch, which
	// will begin there.
	horizon uint64
	// rollback: the index's revisions are of another history than the list's.
	rollback bool
	// blind: the list held something whose identity could not be read, so that
	// what is missing in it is not known.
	blind bool
	// inRow: the list is one of many in a row.
	inRow bool
	// against is what the list holds against the history that was announced.
	against recovery.Contradictions
}

func (t *sweeper) newSweep(s sweep) *sweep {
	t.sweeps++
	s.number = t.sweeps
	return &s
}

// list streams a list from where l stands and emits how it differs from the
// index, but for what is missing in it: see endMissing. It returns the list's
// revision.
func (t *sweeper) list(ctx context.Context, s *sweep, l *listwatch.Listing) (uint64, error) {
	if err := t.clients.Identity.Check(ctx); err != nil {
		return 0, err
	}
	memory := frame.Memory{Most: emit.BatchBytes}
	l.Memory = &memory
	rv, err := t.source.List(ctx, l, t.source.Frames, func(o *frame.Object, bad *frame.Malformed) error {
		t.status.progressNow()
		err := t.takeListed(ctx, s, o, bad)
		if !t.Pending() {
			memory.Reset() // what was listed so far is in the log
		}
		return err
	})
	if err == nil {
		err = t.clients.Identity.Check(ctx)
	}
	if err == nil && !s.rollback {
		err = t.checkHistory(ctx, &s.against, rv)
	}
	// What was seen before a failure is announced: the next attempt builds on it.
	return rv, errors.Join(err, t.Flush(ctx))
}

func (t *sweeper) takeListed(ctx context.Context, s *sweep, o *frame.Object, bad *frame.Malformed) error {
	switch {
	case bad != nil:
		return t.rejectListed(ctx, s, bad)
	case !t.coverage.Filter.Covers(o.Namespace):
		return nil
	}
	return t.observe(ctx, s, o)
}

// rejectListed keeps an object that cannot be passed on. If another one had its
// name before, that one's end comes out all the same.
func (t *sweeper) rejectListed(ctx context.Context, s *sweep, bad *frame.Malformed) error {
	if bad.Name == "" {
		s.blind = true
	} else if !t.coverage.Filter.Covers(bad.Namespace) {
		return nil
	} else if e := t.index.Get(bad.Namespace, bad.Name); e != nil {
		e.Sweep = s.number
		if err := t.endReplaced(ctx, e, bad); err != nil {
			return err
		}
	}
	return t.reject(ctx, bad)
}

// replacedAt is a revision at which the entry's object was gone, given one of
// another object of its name. It is before that one: a process that dies between
// the two events finds the end in the log, and must not take the other object for
// what ended there.
func replacedAt(e *index.Entry, rv uint64) uint64 {
	if rv == 0 {
		return e.RV + 1 // it could not be read
	}
	return rv - 1
}

// endReplaced ends the entry if what cannot be passed on is another object.
func (t *decider) endReplaced(ctx context.Context, e *index.Entry, bad *frame.Malformed) error {
	if bad.UID == "" || t.index.IsUID(e, bad.UID) {
		return nil
	}
	return t.end(ctx, event.Deleted, e, nil, replacedAt(e, bad.ResourceVersion), true)
}

// observe compares one listed object with the index and emits the difference.
func (t *sweeper) observe(ctx context.Context, s *sweep, o *frame.Object) error {
	e := t.index.Get(o.Namespace, o.Name)
	if e != nil {
		e.Sweep = s.number
	}
	if s.horizon != 0 && o.ResourceVersion > s.horizon {
		return nil
	}
	if !s.rollback {
		d := listwatch.ListedOf(o)
		t.noteListed(&s.against, e, d)
		if t.isPast(e, o.Namespace, o.Name, o.UID, o.ResourceVersion) {
			return nil
		}
	}
	if e != nil && !t.index.IsUID(e, o.UID) {
		if err := t.end(ctx, event.Deleted, e, nil, replacedAt(e, o.ResourceVersion), true); err != nil {
			return err
		}
		e = nil
	}
	if e == nil {
		op, err := t.newcomerOp(ctx, s, o)
		if err != nil {
			return err
		}
		if err := t.announce(ctx, op, o, nil, s.replay); err != nil {
			return err
		}
		t.index.Get(o.Namespace, o.Name).Sweep = s.number
		return nil
	}
	same, err := t.sameState(ctx, s, e, o)
	switch {
	case err != nil:
		return err
	case same && t.first.lost && e.Run != t.first.run:
		return t.Repeat(ctx, o, e, t.first.run)
	case same:
		return nil
	}
	return t.announce(ctx, event.Modified, o, e, true)
}

// isPast reports whether what a list says about an object is older than what the
// log holds of the name: a target resumes behind the last events of the process
// before it, and behind the lists that namespaces began with.
func (t *sweeper) isPast(e *index.Entry, namespace, name, uid string, rv uint64) bool {
	return rv <= max(t.endedAt(namespace, name), t.coverage.ListedAt(namespace)) || e != nil && !t.index.IsUID(e, uid) && rv <= e.RV
}

// sameState reports whether the index already holds the listed state, or a newer
// one: a list may be older than what the watch has brought.
func (t *sweeper) sameState(ctx context.Context, s *sweep, e *index.Entry, o *frame.Object) (bool, error) {
	switch {
	case !s.rollback || e.Epoch == t.Epoch:
		return o.ResourceVersion <= t.index.Newest(e), nil
	case o.ResourceVersion != e.RV:
		return false, nil
	case e.Hash != 0:
		return t.index.Hash(o.Data) == e.Hash, nil
	}
	of := t.Event(event.Modified, t.index.ID(e), true)
	last, ok, err := t.Last(ctx, &of)
	of.Data = event.CloseData(o.Data)
	return ok && bytes.Equal(last.Object(), of.Object()), err
}

// endMissing ends what the index holds and the list did not: rv is the list's
// revision.
func (t *sweeper) endMissing(ctx context.Context, s *sweep, rv uint64) error {
	if !s.rollback && rv < max(t.cursor, t.first.began) {
		return fmt.Errorf("%w (list at %d)", errBehind, rv) // what it lacks may have been born since
	}
	for _, e := range t.missing(s) {
		if !s.rollback && e.RV > rv {
			continue // born later: the log has it from before the target resumed
		}
		if err := t.endAbsent(ctx, e, rv); err != nil {
			return err
		}
	}
	return t.Flush(ctx)
}

func (t *sweeper) missing(s *sweep) []*index.Entry {
	if s.blind {
		t.logger.Warn("list has unreadable objects; deletions not emitted yet")
		if t.lost != nil {
			t.lost.Blind = true
		}
		return nil
	}
	var gone []*index.Entry
	for e := range t.index.All() {
		if e.Sweep != s.number {
			gone = append(gone, e)
		}
	}
	return gone
}
