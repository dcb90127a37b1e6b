package deliver

import (
	"context"
	"errors"
	"time"
)

// dropTimeout bounds the dropping after the caller of Redeliver has gone away. The admin server has
// 10 s to write an answer after that.
const dropTimeout = 4 * time.Second

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
// delivered once more. When ctx ends, the letter that is on its way stays, and a later call sends it
// again, under the same id.
func (r *Runner) Redeliver(ctx context.Context, numbers []uint64) (Redelivered, error) {
	d := redelivery{runner: r, wanted: make(map[uint64]bool, len(numbers))}
	for _, number := range numbers {
		d.wanted[number] = true
	}
	err := r.DeadLetters().Each(ctx, func(k Kept) error { return d.take(ctx, k) })
	if errors.Is(err, errComplete) {
		err = nil
	}
	return d.counts, err
}

// redelivery is one call of Redeliver under way.
type redelivery struct {
	runner *Runner
	// wanted are the numbers of the letters that are left. An event that is refused again is a
	// new letter, which is not one of them.
	wanted map[uint64]bool
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
	taken, err := d.runner.Insert(ctx, e)
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	return d.runner.DeadLetters().Drop(ctx, k.Number)
}
