// Package schedule says when each object of a target is due for a re-snapshot: once in each
// period, spread by name. Its callers are the targets with resnapshotEvery.
package schedule

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

const (
	// chunk is how many of the objects that have fallen due are read at a time.
	chunk = 32
	// slicesOfPeriod is into how many parts a period is divided, each of which is put
	// in order at once.
	slicesOfPeriod = 60
	// catchUp is how many times faster than usual the objects come that fell
	// due while no watch was open.
	catchUp = 4
	// strides bounds, as a part of the period, the time that one look takes as
	// passed.
	strides = 100
)

// Schedule has every object due once per period. Time is divided into rounds,
// which begin at the multiples of the period since 1970: a round's run is the millisecond
// in which it begins. An object's name says when in a round it falls due, so that the
// objects of all targets are spread over the period, the same way in every process.
//
// Through is in the target's mark, so that a restart continues there. An event of the second
// before a process is killed is marked by its id in the log, unless the object has changed since.
type Schedule struct {
	target string
	period time.Duration // 0: off
	clock  func() time.Time
	// Times are in nanoseconds since 1970.
	through int64 // what fell due up to here is done
	limit   int64 // what falls due up to here may be done now
	looked  int64 // when the last look was
	// queue has what falls due up to queued, in order.
	queue  []Due
	queued int64
	warned int64 // when it was last reported to be late
}

// Due is when an object is due.
type Due struct {
	At    int64
	Entry index.Handle
}

// New makes the schedule of a target, which begins now. It is off if the period is 0.
func New(target string, period time.Duration, clock func() time.Time) Schedule {
	r := Schedule{target: target, period: period, clock: clock}
	r.begin(clock().UnixNano())
	return r
}

// begin makes what falls due after through the next.
func (r *Schedule) begin(through int64) {
	r.through, r.limit, r.queued, r.queue = through, through, through, nil
	r.looked = r.clock().UnixNano()
}

// GoOn begins where an earlier process has come to, 0 if it did not say. Objects
// that were due before the last period are due again in it.
func (r *Schedule) GoOn(through int64) {
	if r.period > 0 && through > 0 {
		r.begin(max(through, r.clock().UnixNano()-int64(r.period)))
	}
}

// Position is where a later process continues, 0 if nothing falls due.
func (r *Schedule) Position() int64 {
	if r.period == 0 {
		return 0
	}
	return r.through
}

// Run is that of the round of a time.
func (r *Schedule) Run(at int64) uint64 {
	return uint64((at - at%int64(r.period)) / int64(time.Millisecond))
}

// Begins reports whether a run can be that of a round.
func (r *Schedule) Begins(run uint64) bool {
	at := int64(run+1)*int64(time.Millisecond) - 1
	return r.period > 0 && r.Run(at) == run
}

// dueAfter is the first time after from at which an object falls due.
func (r *Schedule) dueAfter(from int64, namespace, name string) int64 {
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

// Look returns the first of what has fallen due, or how long it is until something
// may. Objects that are ready stay in the queue until they are done.
func (r *Schedule) Look(x *index.Index) (ready []Due, wait time.Duration) {
	now, period := r.clock().UnixNano(), int64(r.period)
	if now < r.through-period {
		r.begin(now) // the clock was set back
	}
	passed := min(max(now-r.looked, 0), period/strides)
	r.limit = max(r.limit, min(now, max(r.limit, now-period)+catchUp*passed))
	r.looked = now
	for {
		r.queue = slices.DeleteFunc(r.queue, func(d Due) bool { return d.At <= r.limit && r.needless(x, d, now) })
		n := 0
		for n < min(chunk, len(r.queue)) && r.queue[n].At <= r.limit {
			n++
		}
		switch {
		case n > 0:
			return slices.Clone(r.queue[:n]), 0
		case len(r.queue) > 0:
			r.through = max(r.through, r.limit)
			return nil, time.Duration(r.queue[0].At - now)
		case r.queued >= r.limit:
			r.through = max(r.through, r.limit)
			return nil, time.Duration(r.queued - now)
		}
		r.fill(x, now)
	}
}

// Late reports whether more than a period is due, once in a period.
func (r *Schedule) Late() bool {
	now, period := r.clock().UnixNano(), int64(r.period)
	if r.through >= now-period || r.warned > now-period {
		return false
	}
	r.warned = now
	return true
}

// needless reports whether the object is gone, was announced anew since the round
// began, or is late by a whole period, so that it falls due again.
func (r *Schedule) needless(x *index.Index, d Due, now int64) bool {
	e := x.ByHandle(d.Entry)
	return e == nil || e.Run >= r.Run(d.At) || d.At <= now-int64(r.period)
}

// fill puts the next slice into the queue.
func (r *Schedule) fill(x *index.Index, now int64) {
	from := max(r.queued, now-int64(r.period))
	to := from + max(int64(r.period)/slicesOfPeriod, 1)
	for e := range x.All() {
		if at := r.dueAfter(from, x.Namespace(e), x.Name(e)); at <= to {
			r.queue = append(r.queue, Due{at, x.Handle(e)})
		}
	}
	slices.SortFunc(r.queue, func(a, b Due) int { return cmp.Compare(a.At, b.At) })
	r.queued = to
}

// First is the first of the queue.
func (r *Schedule) First() Due { return r.queue[0] }

// Done takes the first from the queue.
func (r *Schedule) Done() {
	r.through = max(r.through, r.queue[0].At)
	r.queue[0] = Due{}
	r.queue = r.queue[1:]
}
