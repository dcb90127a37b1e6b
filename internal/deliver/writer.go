package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// maxPanics is how often the write of a single event may panic before the event
// goes to the dead letters.
const maxPanics = 3

// maxUnknown is how often a sink may refuse an event for a reason that it does not know
// before the event goes to the dead letters. The pauses between them take about 40 seconds,
// never more than 80.
const maxUnknown = 10

// writer is a runner's side towards the sink. It may be used by several lanes
// at a time.
type writer struct {
	runner *Runner
	sink   sink.Sink
}

// deliver brings all events to the destination or into the dead letters, in
// order, whatever it takes. It calls handled with the number of events that it
// is done with, each time some are. Seqs are the sequences of the events, nil with
// several lanes. The only errors are ctx's.
func (w *writer) deliver(ctx context.Context, events []event.Event, seqs []uint64, handled func(n int)) error {
	d := delivery{
		writer: w, events: events, seqs: seqs, handled: handled,
		limit: maxBatchEvents, trouble: trouble{runner: w.runner},
	}
	for len(d.events) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := w.write(ctx, head(d.events, d.limit), d.seqs)
		d.attempts++
		if n > 0 {
			w.runner.health.delivered(n)
			w.runner.metrics.delivered.Add(float64(n))
			d.advance(n, accepted)
		}
		switch {
		case err == nil:
			d.over()
		case ctx.Err() == nil: // else it is no wonder, whatever the sink says
			d.failed(ctx, err)
		}
	}
	d.over() // also if the last event ended in the dead letters
	return nil
}

// delivery is one call of deliver under way.
type delivery struct {
	writer  *writer
	events  []event.Event // what is left
	seqs    []uint64      // of them, or nil
	handled func(n int)
	limit   int // of events in a write

	// attempts, panics and unknown refusals are those of the first event that is left.
	attempts, panics, unknown int
	// refused is when it was refused for good, zero if it was not. A letter that is written twice has
	// one time, from which a redelivery makes the id.
	refused time.Time
	trouble
}

// advance leaves the first n events behind, which the destination accepted or refused for
// good.
func (d *delivery) advance(n int, o outcome) {
	d.writer.runner.requests.handled(d.events[:n], o)
	if d.seqs != nil {
		if o == accepted {
			d.writer.runner.cursor.Acknowledge(slices.Max(d.seqs[:n]))
		}
		d.seqs = d.seqs[n:]
	}
	d.events, d.attempts, d.panics, d.unknown, d.refused = d.events[n:], 0, 0, 0, time.Time{}
	d.reset()
	d.handled(n)
}

// failed deals with the error about the first event that is left: it sends the
// event to the dead letters, or waits before the next attempt.
func (d *delivery) failed(ctx context.Context, err error) {
	d.attempts = max(d.attempts, 1) // the write that got up to it has tried it, too
	hopeless := sink.IsPermanent(err)
	if _, ok := errors.AsType[*panicError](err); ok {
		if d.limit > 1 && len(d.events) > 1 {
			d.limit = 1 // find out which of them it is
			return
		}
		d.panics++
		hopeless = d.panics == maxPanics
	}
	if sink.IsUnknown(err) {
		d.unknown++
		hopeless = hopeless || d.unknown >= maxUnknown
	}
	if hopeless {
		if d.refused.IsZero() {
			d.refused = time.Now()
		}
		if err = d.writer.bury(ctx, Letter{Event: &d.events[0], Attempts: d.attempts, Time: d.refused}, err); err == nil {
			d.advance(1, refused)
			return
		}
		d.panics = 0
	}
	d.pause(ctx, err)
}

// head returns the events of the next batch: at most limit, and no more bytes
// than a batch may have, but at least one.
func head(events []event.Event, limit int) []event.Event {
	bytes := 0
	for i := range events {
		bytes += events[i].Size()
		if i > 0 && (i == limit || bytes > maxBatchBytes) {
			return events[:i]
		}
	}
	return events
}

// write is one attempt. It holds the sink to its contract: the count fits the
// batch, and a full count comes without an error, a lower one with one.
func (w *writer) write(ctx context.Context, batch []event.Event, seqs []uint64) (n int, err error) {
	at := sink.Positions{Log: w.runner.cursor.Log(), Acknowledged: w.runner.cursor.Acknowledged()}
	if seqs != nil {
		at.Seqs = seqs[:len(batch)]
	}
	start := time.Now()
	err = w.runner.guard(func() error {
		var err error
		n, err = sink.WriteAt(ctx, w.sink, batch, at)
		return err
	})
	w.runner.metrics.write.Observe(time.Since(start).Seconds())
	switch {
	case n < 0 || n > len(batch):
		return 0, fmt.Errorf("the sink says that it wrote %d of %d events", n, len(batch))
	case n == len(batch):
		return n, nil
	case err == nil:
		return n, fmt.Errorf("the sink wrote %d of %d events and gave no reason", n, len(batch))
	}
	return n, err
}

// bury puts an event into the dead letters. An error means that it could not be
// put there, which is worth another try: nothing is ever dropped.
func (w *writer) bury(ctx context.Context, l Letter, reason error) error {
	letters := w.runner.options.DeadLetters
	l.Reason = reason.Error()
	err := letters.Write(ctx, l)
	if err != nil {
		// Not wrapped: reason is permanent, this is not.
		return fmt.Errorf("%w (the refusal of the event: %v)", err, reason) //nolint:errorlint // see above
	}
	w.runner.health.deadLetter(reason, l.Event.ID, letters.Place())
	w.runner.metrics.deadLetters.Inc()
	return nil
}

// trouble is a row of failures of one activity: a lane's writes, the opening of
// the sink, the reading of the journal. Its zero value but for runner is ready.
type trouble struct {
	runner  *Runner
	failing bool // from the first failure until over
	backoff
}

// pause records a failure and waits before the next attempt, or until ctx ends.
// When draining begins it ends at once, to use what time is left, unless the
// destination asked for the pause.
func (t *trouble) pause(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // not a failure of the sink
	}
	t.runner.health.failed(err, !t.failing)
	t.failing = true
	t.runner.metrics.retries.Inc()
	asked := sink.RetryAfter(err)
	draining := t.runner.draining.Done()
	if asked > 0 || t.runner.isDraining() {
		draining = nil
	}
	select {
	case <-time.After(t.next(asked)):
	case <-draining:
	case <-ctx.Done():
	}
}

// over ends the row: everything worked.
func (t *trouble) over() {
	if t.failing {
		t.runner.health.recovered()
		t.failing = false
		t.reset()
	}
}
