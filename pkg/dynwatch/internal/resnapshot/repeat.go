package resnapshot

import (
	"context"
	"errors"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// resnapshotAttempts is how often in a row a snapshot on request may fail to read
// objects before it is given up.
const resnapshotAttempts = 6

// errInterrupted: the target ended during a snapshot on request.
var errInterrupted = errors.New("the target stopped before the snapshot was complete")

// Result is the outcome of a request: see dynwatch.ResnapshotResult.
type Result struct {
	Revision uint64
	Objects  int
	Err      error
}

// Request asks for a re-snapshot with a run.
type Request struct {
	Run uint64
	// insist: failures to read objects do not end it.
	insist bool
	Reply  chan<- Result // with a buffer of one
}

// resnapshot is a snapshot on request that is in progress. It continues over the ends of
// watches.
type resnapshot struct {
	Request
	listing listwatch.Listing
	objects int
	epoch   uint64
	// listed: the list was read to its end, which was at rv.
	listed bool
	rv     uint64
	// ahead is what the list held or lacked and the watch has yet to tell; blind says
	// that there is more, which is not known one by one.
	ahead []listwatch.Listed
	blind bool
	// against is what the list holds against the history that was announced.
	against recovery.Contradictions
	// failures counts those since the last object.
	failures int
}

// Due is where requests come from; never, while one is under way or the
// index is not whole.
func (t *Repeater) Due() <-chan Request {
	if t.resnapshot != nil || !t.Whole() {
		return nil
	}
	return t.Requests
}

// Begin emits the begin event. Everything up to the cursor was emitted.
func (t *Repeater) Begin(ctx context.Context, r Request) error {
	t.StopReader()
	t.resnapshot, t.Repeating = &resnapshot{Request: r, epoch: t.Epoch}, true
	t.Logger.Info("re-snapshot started", "run", r.Run)
	if err := t.EmitBound(ctx, event.Begin, r.Run, t.Cursor, true); err != nil {
		return err
	}
	t.Continue(ctx)
	return nil
}

// lister reads the objects of the selection from where the list stands.
func (t *Repeater) lister() func(ctx context.Context, take func(Object) error) (uint64, error) {
	source, filter, l := t.Source, t.Coverage.Filter, &t.resnapshot.listing
	return func(ctx context.Context, take func(Object) error) (uint64, error) {
		return source.List(ctx, l, source.Frames, func(o *frame.Object, bad *frame.Malformed) error {
			if bad != nil {
				if !filter.Covers(bad.Namespace) {
					return nil
				}
				return take(Object{bad: bad})
			}
			// What comes to be covered just now was not rendered; it has entered.
			if !filter.Covers(o.Namespace) || len(o.Data) == 0 {
				return nil
			}
			return take(Object{object: *o})
		})
	}
}

// resnapshotted announces a listed object again if it is what was announced last. If
// it is older, the newer one was announced since the snapshot began; if it is newer,
// the watch is about to bring it.
func (t *Repeater) resnapshotted(ctx context.Context, o *frame.Object) error {
	s := t.resnapshot
	s.failures = 0
	e := t.Index.Get(o.Namespace, o.Name)
	s.against.Note(t.Index.Known(e, o.UID), listwatch.ListedOf(o))
	switch {
	case t.isLast(o, e) && e.Run != s.Run:
		s.objects++
		return t.announceAgain(ctx, o, e, s.Run)
	case e != nil && t.Index.Newest(e) >= o.ResourceVersion:
		e.Run = s.Run
	case o.ResourceVersion > t.Cursor || e != nil:
		s.expect(listwatch.ListedOf(o), t.Limits.Suspects)
		if e != nil {
			e.Run = s.Run
		}
	}
	return nil
}

func (s *resnapshot) expect(d listwatch.Listed, most int) {
	if len(s.ahead) >= most {
		s.blind = true
		return
	}
	s.ahead = append(s.ahead, d)
}

// listed notes the end of the list. What it lacked is gone, as the watch is about to
// tell.
func (t *Repeater) listed(rv uint64) {
	s := t.resnapshot
	s.listed, s.rv = true, rv
	for e := range t.Index.All() {
		if e.Run != s.Run && e.RV <= rv {
			s.expect(listwatch.Listed{Namespace: t.Index.Namespace(e), Name: t.Index.Name(e), UID: t.Index.UID(e)}, t.Limits.Suspects)
		}
	}
}

// listAnew has the list begin again after a failure: its revision may be compacted,
// its token one of another version. Objects that were announced again are not repeated. It reports
// false if it was given up.
func (t *Repeater) listAnew(ctx context.Context, err error) bool {
	s := t.resnapshot
	if s.failures++; s.failures >= resnapshotAttempts && !s.insist {
		t.answerResnapshot(err)
		t.Continue(ctx)
		return false
	}
	s.restart(t.Epoch)
	return true
}

// restart begins the list again. What was seen in the one before and is gone since
// cannot be told any more.
func (s *resnapshot) restart(epoch uint64) {
	s.listing, s.listed, s.epoch, s.blind, s.against = listwatch.Listing{}, false, epoch, true, recovery.Contradictions{}
}

// Conclude emits the synced event, once the watch has brought what the list
// was ahead of. It begins the re-snapshot of a target without bounds.
func (t *Repeater) Conclude(ctx context.Context) error {
	s := t.resnapshot
	switch {
	case s == nil && t.BoundsMissing != 0 && t.Whole():
		return t.Begin(ctx, Request{Run: t.BoundsMissing, insist: true, Reply: make(chan Result, 1)})
	case s == nil || !s.listed || !t.Whole():
		return nil
	}
	if s.epoch != t.Epoch { // revisions do not compare with those of the list
		s.ahead = nil
		s.restart(t.Epoch)
		t.Continue(ctx)
		return nil
	}
	for len(s.ahead) > 0 && t.told(s, s.ahead[len(s.ahead)-1]) {
		s.ahead = s.ahead[:len(s.ahead)-1]
	}
	if (len(s.ahead) > 0 || s.blind) && t.Cursor < s.rv {
		return nil
	}
	if err := t.EmitBound(ctx, event.Synced, s.Run, s.rv, true); err != nil {
		return err
	}
	t.BoundsMissing = 0
	t.answerResnapshot(nil)
	t.Continue(ctx)
	return nil
}

// told reports whether the watch has brought what the list was ahead of.
func (t *Repeater) told(s *resnapshot, d listwatch.Listed) bool {
	e := t.Index.Get(d.Namespace, d.Name)
	if d.RV == 0 {
		return e == nil || !t.Index.IsUID(e, d.UID) || e.RV > s.rv
	}
	return e != nil && t.Index.Newest(e) >= d.RV || e == nil && t.Cursor >= d.RV
}

// answerResnapshot answers the caller.
func (t *Repeater) answerResnapshot(err error) {
	s := t.resnapshot
	t.resnapshot, t.Repeating = nil, false
	if err != nil {
		t.Logger.Warn("re-snapshot incomplete", "run", s.Run, "err", err, "next", "run `informd resnapshot` again")
	} else {
		t.Logger.Info("re-snapshot complete", "run", s.Run, "count", s.objects)
	}
	if s.insist {
		t.Marks.Soon() // which says no longer that the bounds are missing
	}
	s.Reply <- Result{Revision: s.rv, Objects: s.objects, Err: err}
}

// Close answers the open request when the target ends.
func (t *Repeater) Close() {
	t.StopReader()
	if t.resnapshot != nil {
		t.answerResnapshot(errInterrupted)
	}
}
