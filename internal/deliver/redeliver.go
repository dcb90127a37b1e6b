package deliver

import (
	"context"
	"errors"
	"time"
)

// goneTimeout bounds the delivery of a letter, and the dropping, after the caller of Redeliver
// has gone away. The admin server has 10 s to write an answer after that.
const goneTimeout = 4 * time.Second

// errComplete ends the reading of a box before its end.
var errComplete = errors.New("all wanted dead letters were read")

// Redelivered counts the dead letters of a [Runner.Redeliver] by their outcome.
type Redelivered struct {
	Accepted int
	// Refused are those that the destination refused again.
	Refused int
	// Filtered are those that the route filters out: they stay.
	Filtered int
}

// Redeliver has the sink deliver the dead letters with these numbers. It holds one letter at a
// time. The run of an event is the one that it has, or the time of its
// letter in milliseconds: so another attempt has the same id.
//
// It drops the dead letters that the sink is done with as it goes: after a crash they would be
// delivered once more. When ctx ends, a write in progress has some time to end, because the
// destination may accept the event.
func (r *Runner) Redeliver(ctx context.Context, numbers []uint64) (Redelivered, error) {
	d := redelivery{runner: r, wanted: make(map[uint64]bool, len(numbers))}
	for _, number := range numbers {
		d.wanted[number] = true
	}
	err := r.DeadLetters().Each(ctx, func(k Kept) error { return d.take(ctx, k) })
	if errors.Is(err, errComplete) {
		err = nil
	}
	err = errors.Join(err, d.drop(ctx))
	return d.counts, err
}

// redelivery is one call of Redeliver under way.
type redelivery struct {
	runner *Runner
	// wanted are the numbers of the letters that are left. An event that is refused again is a
	// new letter, which is not one of them.
	wanted map[uint64]bool
	// done are the numbers of those that the sink is done with, and that are not dropped yet.
	done []uint64
	// dropped is when the last drop ended, and took is how long it took.
	dropped time.Time
	took    time.Duration

	counts Redelivered
}

func (d *redelivery) take(ctx context.Context, k Kept) error {
	if d.wanted[k.Number] && k.Event != nil { // a damaged letter cannot be delivered
		if err := d.deliver(ctx, k); err != nil {
			return err
		}
	}
	if delete(d.wanted, k.Number); len(d.wanted) == 0 {
		return errComplete
	}
	return nil
}

func (d *redelivery) deliver(ctx context.Context, k Kept) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := *k.Event
	if e.Run == 0 { // or its destination has not accepted this id yet
		e.SetRun(uint64(max(1, k.Time.UnixMilli())))
	}
	e.Redelivered = true
	longer, cancel := outlasting(ctx)
	defer cancel()
	taken, err := d.runner.Insert(longer, e)
	switch {
	case errors.Is(err, ErrFilteredOut):
		d.counts.Filtered++ // nothing was sent, so the letter is the only copy
		return nil
	case err != nil:
		return err
	case taken:
		d.counts.Accepted++
	default:
		d.counts.Refused++
	}
	d.done = append(d.done, k.Number)
	// Each drop waits for the disk. So if drops take long, several letters wait for one.
	if time.Since(d.dropped) < d.took {
		return nil
	}
	return d.drop(ctx)
}

// drop drops the letters that the sink is done with, also after ctx has ended.
func (d *redelivery) drop(ctx context.Context) error {
	if len(d.done) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneTimeout)
	defer cancel()
	start := time.Now()
	err := d.runner.DeadLetters().Drop(ctx, d.done...)
	d.dropped = time.Now()
	d.took = d.dropped.Sub(start)
	if err == nil {
		d.done = d.done[:0]
	}
	return err
}

// outlasting returns a context that ends goneTimeout after ctx.
func outlasting(ctx context.Context) (longer context.Context, cancel context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(goneTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			end()
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		end()
	}
}
