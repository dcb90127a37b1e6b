package target

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// The walk is over before the watch is opened. Frames need not wait anywhere, and
// what a walk says comes before what the watch says by itself. If the walk takes
// so long that the watch's revision expires meanwhile, all begins again from a
// newer one, but at most maxRefusals times: after that there is no walk.

// queries are what there is to walk after a sweep. Those whose newest revision is
// oldest come first: all that is missing of them is old, and etcd's next
// compaction takes it. What is gone has none, and may have been gone for long.
func (ob *objects) queries(s *Pass, l *loss, differing []listwatch.Listed, most int) []recovery.Query {
	var all []recovery.Query
	// Each costs a request at least: what is more than the budget need not be kept.
	trim := func() {
		slices.SortStableFunc(all, func(a, b recovery.Query) int { return cmp.Compare(a.RV, b.RV) })
		if len(all) > most {
			all, l.incomplete = all[:most], true
		}
	}
	add := func(e *index.Entry, d listwatch.Listed) {
		if len(all) > 2*most {
			trim()
		}
		q := recovery.Query{Namespace: d.Namespace, Name: d.Name, UID: d.UID, RV: d.RV, Top: s.At}
		q.Floor = max(l.from, ob.position.endedAt(q.Namespace, q.Name), ob.coverage.ListedAt(q.Namespace))
		if e != nil {
			q.KnownUID, q.KnownRV = ob.index.UID(e), e.RV
		}
		if e != nil && ob.index.IsUID(e, d.UID) && d.RV != 0 && d.RV <= q.Floor {
			return // no revision is missing: a change filter held it back
		}
		all = append(all, q)
	}
	for _, d := range differing {
		add(ob.index.Get(d.Namespace, d.Name), d)
	}
	for _, e := range ob.missing(s) {
		if e.RV <= s.At && ob.coverage.Filter.Covers(ob.index.Namespace(e)) {
			add(e, listwatch.Listed{Namespace: ob.index.Namespace(e), Name: ob.index.Name(e)})
		}
	}
	trim()
	return all
}

// walk emits the history of every name, but for the listed states, as far as the
// budget and etcd reach.
func (t *Target) walk(ctx context.Context, queries []recovery.Query) error {
	l := t.loop.loss()
	if l != nil && t.Spec.Selects() {
		l.incomplete = true // what came into the selection and left again is in no list
	}
	if len(queries) == 0 {
		return nil
	}
	w := &recovery.Walk{
		Source: t.Discovery.Source, Queries: queries, Requests: t.Limits.Requests - l.requests, Width: t.Limits.Width, Bodies: t.Limits.Bodies,
		Lenient: l.failures >= failuresOfWalk,
	}
	began := time.Now()
	err := t.emitWalk(ctx, w, t.Limits.Time-l.spent)
	l.spent += time.Since(began)
	l.requests += w.Asked
	t.Status.WalkRequests.Add(uint64(max(w.Asked, 0)))
	l.answers += w.Answers
	l.incomplete = l.incomplete || w.Torn
	if err != nil {
		return err
	}
	t.Logger.Info("history walk complete", "count", len(queries), "requests", w.Asked, "complete", !w.Torn)
	return t.markLost(ctx)
}

// walkTick is how long what a walk has found may wait for more.
const walkTick = 100 * time.Millisecond

// emitWalk starts the walkers and emits their results.
func (t *Target) emitWalk(ctx context.Context, w *recovery.Walk, left time.Duration) error {
	// The log is not to be told with the walkers' context: an append that fails
	// ends the target.
	walking, stop := context.WithCancel(ctx)
	defer stop()
	results := w.Start(walking, stop, left)
	tick := time.NewTicker(walkTick)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-tick.C:
			t.Status.Alive()
			err = t.Writer.Flush(ctx)
		case f, more := <-results:
			if !more {
				return cmp.Or(t.Writer.Flush(ctx), w.Err)
			}
			err = t.emitResult(ctx, &f)
		}
		if err != nil {
			stop()
			for range results { // the walkers are on their way out
			}
			return err
		}
	}
}

// emitResult emits one result.
func (t *Target) emitResult(ctx context.Context, f *recovery.Result) error {
	t.Status.Progressed()
	if l := t.loop.loss(); f.Torn && !l.incomplete {
		l.incomplete = true
		if err := t.markLost(ctx); err != nil {
			return err
		}
	}
	if f.Listless {
		return t.lookups.wrongList(f.Namespace, f.Name, f.RV)
	}
	k, e := t.Objects.knownOf(index.ID{Namespace: f.Namespace, Name: f.Name, UID: f.UID})
	s := decide.Seen{Kind: decide.State, RV: f.RV, Unreadable: f.Bad != nil}
	if f.End {
		if s.Kind = decide.Gone; k.Object != decide.Same {
			return nil // its beginning was not announced
		}
	}
	d := decide.Decide(k, s, decide.Rules{Selects: t.Spec.Selects(), Arrival: event.Added})
	e, err := t.Objects.endReplaced(ctx, d, e)
	if err != nil {
		return err
	}
	if f.Bad != nil {
		return t.rejections.reject(ctx, f.Bad)
	}
	return t.Objects.emitDecided(ctx, d, e, f)
}
