package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

const (
	// resyncChunk is how many of the objects that have fallen due are read at a time.
	resyncChunk = 32
	// resyncSlices is into how many parts a period is divided, each of which is put
	// in order at once.
	resyncSlices = 60
	// resyncCatchUp is how many times faster than usual the objects come that fell
	// due while no watch was open.
	resyncCatchUp = 4
	// resyncStrides bounds, as a part of the period, the time that one look takes as
	// passed.
	resyncStrides = 100
)

// resync announces every object anew once per period. Time is divided into rounds,
// which begin at the multiples of the period since 1970: a round's run is the millisecond
// in which it begins. An object's name says when in a round it falls due, so that the
// objects of all targets are spread over the period, the same way in every process.
//
// Through is in the target's mark, so that a restart goes on there. What is announced
// in the second before a process is killed is marked by its id in the log, unless the
// object has changed since.
type resync struct {
	target string
	period time.Duration // 0: off
	clock  func() time.Time
	// Times are in nanoseconds since 1970.
	through int64 // what fell due up to here is done
	limit   int64 // what falls due up to here may be done now
	looked  int64 // when the last look was
	// queue has what falls due up to queued, in order.
	queue  []due
	queued int64
	warned int64 // when the last warning was
}

// due is when an object is to be announced anew.
type due struct {
	at    int64
	entry index.Handle
}

func newResync(s spec, clock func() time.Time) resync {
	r := resync{target: s.name(), period: s.resync, clock: clock}
	r.begin(clock().UnixNano())
	return r
}

// begin makes what falls due after through the next.
func (r *resync) begin(through int64) {
	r.through, r.limit, r.queued, r.queue = through, through, through, nil
	r.looked = r.clock().UnixNano()
}

// goOn begins where an earlier process has come to, 0 if it did not say. What
// fell due before the last period falls due again in it.
func (r *resync) goOn(through int64) {
	if r.period > 0 && through > 0 {
		r.begin(max(through, r.clock().UnixNano()-int64(r.period)))
	}
}

// position is what a later process goes on from, 0 if nothing falls due.
func (r *resync) position() int64 {
	if r.period == 0 {
		return 0
	}
	return r.through
}

// run is that of the round of a time.
func (r *resync) run(at int64) uint64 {
	return uint64((at - at%int64(r.period)) / int64(time.Millisecond))
}

// begins reports whether a run can be that of a round.
func (r *resync) begins(run uint64) bool {
	at := int64(run+1)*int64(time.Millisecond) - 1
	return r.period > 0 && r.run(at) == run
}

// dueAfter is the first time after from at which an object falls due.
func (r *resync) dueAfter(from int64, namespace, name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.target + "/" + namespace + "/" + name)) // never fails
	period := int64(r.period)
	offset := int64(mix(h.Sum64()) % uint64(period))
	wait := (offset - from) % period
	if wait <= 0 {
		wait += period
	}
	return from + wait
}

// mix has every bit of a hash depend on all others, as those of names that differ in
// their last byte only do not: the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// look returns the first of what has fallen due, or how long it is until something
// may. What is ready stays in the queue until it is done.
func (r *resync) look(x *index.Index) (ready []due, wait time.Duration) {
	now, period := r.clock().UnixNano(), int64(r.period)
	if now < r.through-period {
		r.begin(now) // the clock was set back
	}
	passed := min(max(now-r.looked, 0), period/resyncStrides)
	r.limit = max(r.limit, min(now, max(r.limit, now-period)+resyncCatchUp*passed))
	r.looked = now
	for {
		r.queue = slices.DeleteFunc(r.queue, func(d due) bool { return d.at <= r.limit && r.needless(x, d, now) })
		n := 0
		for n < min(resyncChunk, len(r.queue)) && r.queue[n].at <= r.limit {
			n++
		}
		switch {
		case n > 0:
			return slices.Clone(r.queue[:n]), 0
		case len(r.queue) > 0:
			r.through = max(r.through, r.limit)
			return nil, time.Duration(r.queue[0].at - now)
		case r.queued >= r.limit:
			r.through = max(r.through, r.limit)
			return nil, time.Duration(r.queued - now)
		}
		r.fill(x, now)
	}
}

// needless reports whether the object is gone, was announced anew since the round
// began, or is late by a whole period, so that it falls due again.
func (r *resync) needless(x *index.Index, d due, now int64) bool {
	e := x.ByHandle(d.entry)
	return e == nil || e.Run >= r.run(d.at) || d.at <= now-int64(r.period)
}

// fill puts the next slice into the queue.
func (r *resync) fill(x *index.Index, now int64) {
	from := max(r.queued, now-int64(r.period))
	to := from + max(int64(r.period)/resyncSlices, 1)
	for e := range x.All() {
		if at := r.dueAfter(from, x.Namespace(e), x.Name(e)); at <= to {
			r.queue = append(r.queue, due{at, x.Handle(e)})
		}
	}
	slices.SortFunc(r.queue, func(a, b due) int { return cmp.Compare(a.at, b.at) })
	r.queued = to
}

// done takes the first from the queue.
func (r *resync) done() {
	r.through = max(r.through, r.queue[0].at)
	r.queue[0] = due{}
	r.queue = r.queue[1:]
}

// resync has what has fallen due read.
func (t *target) resync(ctx context.Context) {
	r := &t.again.resync
	if now, period := r.clock().UnixNano(), int64(r.period); r.through < now-period && r.warned <= now-period {
		r.warned = now
		t.logger.Warn("scheduled re-snapshot is late", "resnapshot_every", r.period,
			"next", "raise resnapshotEvery, or make the sinks faster")
	}
	ready, wait := r.look(t.index)
	if len(ready) == 0 {
		t.lookAgain(wait)
		return
	}
	objects := make([]index.ID, len(ready)) // the index is not for the reader
	for i, d := range ready {
		e := t.index.ByHandle(d.entry)
		objects[i].Namespace, objects[i].Name = t.index.Namespace(e), t.index.Name(e)
	}
	source := t.source
	t.again.read(ctx, func(ctx context.Context, take func(present) error) (uint64, error) {
		for _, o := range objects {
			p, err := presentOf(ctx, source, o.Namespace, o.Name)
			if err == nil {
				err = take(p)
			}
			if err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
}

// presentOf reads an object of the selection by name.
func presentOf(ctx context.Context, s *listwatch.Source, namespace, name string) (p present, err error) {
	p.object, p.there, p.at, err = s.MatchBy(ctx, namespace, name, 0)
	if bad, ok := errors.AsType[*frame.Malformed](err); ok {
		return present{bad: bad}, nil
	}
	return p, err
}

// resynced announces the first of the queue anew, unless the watch has told or will
// tell something else of it.
func (t *target) resynced(ctx context.Context, p *present) error {
	r := &t.again.resync
	d := r.queue[0]
	if o := &p.object; p.there {
		var against contradictions
		against.note(t.index, t.index.Get(o.Namespace, o.Name), listwatch.ListedOf(o))
		if err := t.checkHistory(ctx, &against, p.at); err != nil {
			return err
		}
	}
	if e := t.index.ByHandle(d.entry); e != nil && p.there && t.isLast(&p.object, e) {
		if err := t.announceAgain(ctx, &p.object, e, r.run(d.at)); err != nil {
			return err
		}
	}
	r.done()
	t.markSoon()
	return nil
}
