package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// The walk reads from etcd what the watch cache no longer has: the older revisions
// of what differs between the index and a list. A list of one name at an exact
// revision is always served by etcd; asked at the revision before a known one, it
// returns the one before, and nothing before the creation.
//
// The walk is over before the watch is opened. Frames need not wait anywhere, and
// what a walk says comes before what the watch says by itself. If the walk takes
// so long that the watch's revision expires meanwhile, all begins again from a
// newer one, but at most maxReconciles times: after that there is no walk.

// quest is one name whose history is wanted. All of it up to floor is known.
type quest struct {
	namespace, name string
	floor           uint64
	// uid and rv are what the list holds, rv 0 if it holds nothing; top is the
	// list's revision.
	uid string
	rv  uint64
	top uint64
	// knownUID and knownRV are what the index holds, empty if nothing.
	knownUID string
	knownRV  uint64
}

// quests are what there is to walk after a sweep. Those whose newest revision is
// oldest come first: all that is missing of them is old, and etcd's next
// compaction takes it. What is gone has none, and may have been gone for long.
func (t *target) quests(s *sweep, differing []listwatch.Listed) []quest {
	if l := t.lost; l == nil || !l.walks() || t.reconciles > maxReconciles {
		return nil
	}
	var all []quest
	// Each costs a request at least: what is more than the budget need not be kept.
	trim := func() {
		slices.SortStableFunc(all, func(a, b quest) int { return cmp.Compare(a.rv, b.rv) })
		if len(all) > t.limits.requests {
			all, t.lost.torn = all[:t.limits.requests], true
		}
	}
	add := func(e *index.Entry, d listwatch.Listed) {
		if len(all) > 2*t.limits.requests {
			trim()
		}
		q := quest{namespace: d.Namespace, name: d.Name, uid: d.UID, rv: d.RV, top: s.at}
		q.floor = max(t.lost.from, t.endedAt(q.namespace, q.name), t.coverage.ListedAt(q.namespace))
		if e != nil {
			q.knownUID, q.knownRV = t.index.UID(e), e.RV
		}
		if e != nil && t.index.IsUID(e, d.UID) && d.RV != 0 && d.RV <= q.floor {
			return // no revision is missing: a change gate held it back
		}
		all = append(all, q)
	}
	for _, d := range differing {
		add(t.index.Get(d.Namespace, d.Name), d)
	}
	for _, e := range t.missing(s) {
		if e.RV <= s.at && t.coverage.Filter.Covers(t.index.Namespace(e)) {
			add(e, listwatch.Listed{Namespace: t.index.Namespace(e), Name: t.index.Name(e)})
		}
	}
	trim()
	return all
}

// finding is one thing that a walk tells of an object: a state, or its end.
type finding struct {
	namespace, name, uid string
	// rv is the revision of the state or of the end.
	rv  uint64
	end bool
	// object is the state, or the last one before the end; after the end of one
	// that still exists and no longer matches, the state then. It may be nil.
	object *frame.Object
	bad    *frame.Malformed
	left   bool
	// listed: only the list says that it has ended. listless: the list, of this revision,
	// lacks an object that etcd has.
	listed, listless bool
	// torn: something is missing before it.
	torn bool
}

// walk tells the history of every quest, but for the listed states, as far as the
// budget and etcd reach.
func (t *target) walk(ctx context.Context, quests []quest) error {
	l := t.lost
	if l != nil && t.spec.selects() {
		l.torn = true // what came into the selection and left again is in no list
	}
	if len(quests) == 0 {
		return nil
	}
	w := &walk{
		source: t.source, limits: t.limits, quests: quests, findings: make(chan finding),
		requests: t.limits.requests - l.requests, lenient: l.setbacks >= maxSetbacks,
	}
	began, waited := time.Now(), t.await.waited
	err := t.hear(ctx, w, t.limits.time-l.spent)
	l.spent += time.Since(began) - (t.await.waited - waited)
	l.requests += w.asked
	t.status.walkRequests.Add(uint64(max(w.asked, 0)))
	l.answers += w.answers
	if l.torn = l.torn || w.torn; err != nil {
		l.setbacks++
		return err
	}
	t.logger.Info("history walk complete", "count", len(quests), "requests", w.asked, "complete", !w.torn)
	return t.markLost(ctx)
}

// maxSetbacks is how many walks of a gap may break off over an error before what
// cannot be read is left out.
const maxSetbacks = 3

// hearTick is how long what a walk has found may wait for more.
const hearTick = 100 * time.Millisecond

// hear has the walkers walk and emits what they find.
func (t *target) hear(ctx context.Context, w *walk, left time.Duration) error {
	// The log is not to be told with the walkers' context: an append that fails
	// ends the target.
	walking, stop := context.WithCancel(ctx)
	defer stop()
	t.await.walking = newAllowance(walking, left)
	defer t.await.walked()
	w.start(walking, stop, t.await.walking)
	tick := time.NewTicker(hearTick)
	defer tick.Stop()
	var err error
	for more := true; more; {
		var f finding
		flush := false
		select {
		case <-tick.C:
			flush = true
		case f, more = <-w.findings:
			flush = !more
		}
		switch {
		case err != nil: // the walkers are on their way out
		case flush:
			t.status.beatNow()
			err = t.Flush(ctx)
		default:
			err = t.relive(ctx, &f)
		}
		if err != nil {
			stop()
		}
	}
	return cmp.Or(err, w.err)
}

// relive emits one finding.
func (t *target) relive(ctx context.Context, f *finding) error {
	t.status.progressNow()
	if f.torn && !t.lost.torn {
		t.lost.torn = true
		if err := t.markLost(ctx); err != nil {
			return err
		}
	}
	e := t.index.Get(f.namespace, f.name)
	switch {
	case f.listless:
		t.convict(listwatch.Listed{Namespace: f.namespace, Name: f.name}, f.object, true, f.rv)
		return nil
	case e != nil && f.rv <= e.RV:
		return nil
	case f.end:
		return t.reliveEnd(ctx, e, f)
	case f.bad != nil:
		return t.rejectFinding(ctx, e, f.bad)
	case e != nil && t.index.IsUID(e, f.uid):
		return t.announce(ctx, event.Modified, f.object, e, true)
	case e != nil: // its end was not found
		if err := t.reliveEnd(ctx, e, &finding{uid: t.index.UID(e), rv: replacedAt(e, f.rv)}); err != nil {
			return err
		}
	}
	if !t.spec.selects() {
		return t.announce(ctx, event.Added, f.object, nil, true)
	}
	op, err := t.addedOrEntered(ctx, f.object, f.rv-1)
	if err != nil {
		return err
	}
	// What left just now is still in the batch, and recall looks into the log.
	if err := t.Flush(ctx); err != nil {
		return err
	}
	return t.announce(ctx, op, f.object, nil, true)
}

func (t *target) reliveEnd(ctx context.Context, e *index.Entry, f *finding) error {
	if e == nil || !t.index.IsUID(e, f.uid) {
		return nil // nobody was told of it
	}
	if f.listed {
		if spared, err := t.spared(ctx, e, f.rv); spared || err != nil {
			return err
		}
	}
	if f.left {
		return t.end(ctx, event.Left, e, f.object, f.rv, true)
	}
	if f.object == nil {
		// The last state that is known is in the log, or in the batch on its way.
		if err := t.Flush(ctx); err != nil {
			return err
		}
	}
	return t.end(ctx, event.Deleted, e, f.object, f.rv, true)
}

func (t *target) rejectFinding(ctx context.Context, e *index.Entry, bad *frame.Malformed) error {
	if e != nil {
		if err := t.endReplaced(ctx, e, bad); err != nil {
			return err
		}
	}
	return t.reject(ctx, bad)
}

// errSpent: the budget of the walk is used up.
var errSpent = errors.New("the request budget of the history walk is used up")

// walk is the walkers' common part.
type walk struct {
	source   *listwatch.Source
	limits   limits
	quests   []quest
	findings chan finding
	// lenient: no error is worth another attempt of the whole.
	lenient bool
	next    atomic.Int64

	mu sync.Mutex
	// requests is how many may still be made, asked and answers how many were.
	requests, asked, answers int
	torn                     bool
	err                      error
	// closed is until when the API server wants to be left alone.
	closed time.Time
}

// start starts the walkers, which end with ctx, or one of whom ends all by stop.
// Findings is closed when all have ended.
func (w *walk) start(ctx context.Context, stop func(), left *allowance) {
	var walkers sync.WaitGroup
	for range min(w.limits.width, len(w.quests)) {
		walkers.Go(func() {
			if err := w.run(ctx, left.asking); err != nil {
				w.fail(err)
				stop()
			}
		})
	}
	go func() {
		walkers.Wait()
		left.end()
		close(w.findings)
	}()
}

func (w *walk) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

// run takes quest after quest. It asks under one context and tells under another,
// which outlasts the time for asking.
func (w *walk) run(ctx, asking context.Context) error {
	for {
		i := int(w.next.Add(1)) - 1
		if i >= len(w.quests) {
			return nil
		}
		h := &history{walk: w, quest: &w.quests[i]}
		if err := cmp.Or(h.trace(asking), ctx.Err()); err != nil {
			return err
		}
		if err := h.tell(ctx, asking); err != nil {
			return err
		}
		if h.torn {
			w.mu.Lock()
			w.torn = true
			w.mu.Unlock()
		}
	}
}

// cut reports whether an error ends one history, not the walk: what is beyond it
// stays unknown.
func (w *walk) cut(asking context.Context, err error) bool {
	if listwatch.Unsupported(err) {
		w.mu.Lock()
		w.requests = 0
		w.mu.Unlock()
		return true
	}
	return listwatch.Expired(err) || errors.Is(err, errSpent) || asking.Err() != nil || w.lenient
}

// sight is what a name held at some revision.
type sight struct {
	there bool
	uid   string
	rv    uint64
	// object or bad is the state, neither if it is not held any more.
	object *frame.Object
	bad    *frame.Malformed
}

// at looks a name up as it was at rv, in the selection.
func (w *walk) at(ctx context.Context, q *quest, rv uint64) (sight, error) {
	for {
		if err := w.pass(ctx); err != nil {
			return sight{}, err
		}
		o, ok, err := w.source.MatchAt(ctx, q.namespace, q.name, rv)
		if w.put(err) {
			continue
		}
		if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
			if bad.UID == "" || bad.ResourceVersion == 0 {
				return sight{}, fmt.Errorf("%w: %w", errSpent, err) // no way to go on from it
			}
			return sight{there: true, uid: bad.UID, rv: bad.ResourceVersion, bad: bad}, nil
		}
		if err != nil || !ok {
			return sight{}, err
		}
		return sight{there: true, uid: o.UID, rv: o.ResourceVersion, object: &o}, nil
	}
}

// pass waits until the API server may be asked, and takes one request of the
// budget.
func (w *walk) pass(ctx context.Context) error {
	for {
		w.mu.Lock()
		wait := time.Until(w.closed)
		if wait <= 0 || ctx.Err() != nil {
			defer w.mu.Unlock()
			if w.requests <= 0 || ctx.Err() != nil || !w.source.Clients.Walks.Take(1) {
				return errSpent
			}
			w.requests--
			w.asked++
			return nil
		}
		w.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// put notes how a request ended, and reports whether it is to be made again.
func (w *walk) put(err error) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.answers++
	}
	wait, ok := kube.Throttled(err)
	if ok {
		w.closed = time.Now().Add(wait)
	}
	return ok
}
