package jetstream

import (
	"bytes"
	"context"
	"errors"
	"math"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/conflict"
	"github.com/informd/informd/pkg/journal/jetstream/internal/lastindex"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// errBehind marks an event that was not sent because the one before it of the same
// object was not acknowledged.
var errBehind = errors.New("the previous event of the same object is not in the journal yet")

// Append implements [journal.Journal]. It tries for as long as it takes: the only
// errors are those of ctx and of the fence, [journal.ErrClosed], [ErrFenced] and
// [ErrLost]. If it fails, some of the events may be in the log: see [Journal.AppendRest].
func (j *Journal) Append(ctx context.Context, events []event.Event) error {
	_, err := j.AppendRest(ctx, events)
	if errors.Is(err, ErrFenced) {
		j.fail(err)
	}
	return err
}

// AppendRest is Append, except that [ErrFenced] does not close [Journal.Failed]. If it fails,
// rest has the events that are not known to be in the log. Appending the rest again repeats no
// event; appending all events would repeat those that are not the last of their objects.
func (j *Journal) AppendRest(ctx context.Context, events []event.Event) (rest []event.Event, err error) {
	if err := j.usable(ctx); err != nil {
		return events, err
	}
	if len(events) == 0 {
		return nil, nil
	}
	bounded, cancel := j.within(ctx)
	defer cancel()
	pending := make([]*flight, len(events))
	for i := range events {
		pending[i] = j.prepare(&events[i])
		pending[i].at = i
	}
	left, err := j.appendAll(bounded, pending)
	for _, f := range left {
		if !f.hasLanded() {
			rest = append(rest, events[f.at])
		}
	}
	return rest, j.cause(ctx, err)
}

func (j *Journal) prepare(e *event.Event) *flight {
	f, ok := j.spare.Get().(*flight)
	if !ok {
		f = newFlight()
	}
	f.event, f.id = *e, j.subjects.Hash(e.ID)
	// Readers share it from the tail, and the client sends it even if nobody waits.
	f.event.Data = bytes.Clone(e.Data)
	f.values, f.most = j.messages.Fill(f.message, f.values, &f.event)
	f.subject = j.subjects.Hash(f.message.Subject)
	return f
}

// appendAll makes attempts until every event is in the log. After an error, left has the
// events whose last attempt did not bring them in, among others.
func (j *Journal) appendAll(ctx context.Context, pending []*flight) (left []*flight, err error) {
	var pause server.Backoff
	blocked := false
	defer func() {
		if blocked {
			j.blocked.Add(-1)
		}
	}()
	for {
		if err := j.attempt(ctx, pending); err != nil {
			return pending, err
		}
		trouble, err := j.review(ctx, pending)
		if err != nil {
			return pending, err
		}
		if pending = j.remaining(pending); len(pending) == 0 {
			j.appending.Over()
			return nil, nil
		}
		if trouble == nil {
			pause = server.Backoff{}
			continue
		}
		if !blocked {
			blocked = true
			j.blocked.Add(1)
		}
		j.appending.Begin(trouble)
		switch {
		case errors.Is(trouble, js.ErrNoStreamResponse):
			signal(j.check)
		case isFull(trouble):
			signal(j.janitor.short)
		}
		if err := pause.Wait(ctx); err != nil {
			return pending, err
		}
	}
}

// remaining leaves out what has landed. Nobody else knows that any more: it is used
// again.
func (j *Journal) remaining(pending []*flight) []*flight {
	rest := pending[:0]
	for _, f := range pending {
		if f.landed {
			f.empty()
			j.spare.Put(f)
		} else {
			rest = append(rest, f)
		}
	}
	return rest
}

// attempt sends the events, one after the other without any of another call in
// between, and waits for what comes of each.
func (j *Journal) attempt(ctx context.Context, pending []*flight) error {
	if err := j.allowed(); err != nil {
		return err
	}
	limit := j.messages.Limit()
	for _, f := range pending {
		f.err = nil
		if len(f.message.Data) > 0 && f.most > limit && !j.messages.Fits(f.message) {
			f.err = j.shrinkOften(ctx, f)
		}
	}
	select {
	case j.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := j.launchAll(ctx, pending)
	<-j.turn // only now may another call send
	if err != nil {
		return err
	}
	for _, f := range pending {
		if err := f.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// shrinkOften is shrink with a bound of attempts.
func (j *Journal) shrinkOften(ctx context.Context, f *flight) error {
	f.most = math.MaxInt64
	err := j.messages.Shrink(ctx, &f.event, f.message)
	if err == nil || ctx.Err() != nil || isFull(err) || !j.config.Conn.IsConnected() {
		return err
	}
	if f.refused++; f.refused < message.ObjectAttempts {
		return err
	}
	j.messages.Reduce(&f.event, f.message, err)
	return nil
}

// launchAll sends the events. The outcome of some is still to come.
func (j *Journal) launchAll(ctx context.Context, pending []*flight) error {
	if err := j.allowed(); err != nil { // again: the turn may have taken long to come
		return err
	}
	before := make(map[uint64]*flight, len(pending)) // by subject
	for _, f := range pending {
		if earlier := before[f.subject]; earlier != nil {
			// Of one object, one event is on its way at a time.
			if err := earlier.settle(ctx); err != nil {
				return err
			}
			if !earlier.landed && f.err == nil {
				f.err = errBehind
			}
		}
		before[f.subject] = f
		if f.err != nil {
			continue
		}
		if f.err = j.keepEnd(ctx, f); f.err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		if err := j.launch(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// settle waits for the outcome of the attempt, if there is one to come.
func (f *flight) settle(ctx context.Context) error {
	if !f.flying {
		return nil
	}
	select {
	case f.err = <-f.outcome:
		f.flying, f.landed = false, f.err == nil
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hasLanded reports whether the event is known to be in the log.
func (f *flight) hasLanded() bool {
	if f.flying {
		select {
		case f.err = <-f.outcome:
			f.flying, f.landed = false, f.err == nil
		default:
		}
	}
	return f.landed
}

// review decides how each failed event goes on. The trouble it returns is the
// reason to wait before the next attempt; the error ends the append.
func (j *Journal) review(ctx context.Context, pending []*flight) (trouble, err error) {
	for _, f := range pending {
		switch {
		case f.landed || errors.Is(f.err, errBehind):
		case isStale(f.err):
			doubt, err := j.reconsider(ctx, f)
			if err != nil {
				return nil, err
			}
			trouble = first(trouble, doubt)
		case isTooLarge(f.err) && len(f.event.Data) > 0:
			// The limit has just been lowered, or is the server's secret.
			f.most = math.MaxInt64
			if err := j.messages.Shrink(ctx, &f.event, f.message); err != nil {
				trouble = first(trouble, err)
			} else if f.shrunk++; f.shrunk > 1 {
				j.messages.Reduce(&f.event, f.message, f.err)
			}
		case j.isHopeless(f):
			trouble = first(trouble, j.giveUp(ctx, f))
		default:
			trouble = first(trouble, f.err)
		}
	}
	if err := j.loss(); err != nil {
		return nil, err
	}
	return trouble, nil
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// reconsider looks at what a subject ends with, other than expected. Doubt is the
// reason why it could not.
func (j *Journal) reconsider(ctx context.Context, f *flight) (doubt, err error) {
	m, err := j.askLast(ctx, f.message.Subject)
	if err != nil {
		return err, nil
	}
	last := conflict.Last{Seq: m.Seq}
	if m.Seq != 0 {
		// What cannot be parsed is no event: it has no id and no revision.
		last.Event, _ = message.Parse(m.Header)
	}
	verdict, err := conflict.Resolve(&f.event, last, f.sent)
	if errors.Is(err, ErrLost) {
		if j.config.Replaces == nil || f.sent != 0 {
			j.lose(err)
			return nil, err
		}
		// The journal is known to have lost events, which include the one before this.
	} else if err != nil {
		return nil, err
	}
	j.subjects.Set(f.subject, lastindex.Entry{Seq: m.Seq, ID: j.subjects.Hash(last.Event.ID), Ends: last.Event.Op.Ends()})
	if verdict == conflict.Held {
		f.landed = true
		j.tail.Reach(m.Seq)
	} else if m.Seq == f.sent {
		return f.err, nil // it changed back and forth: not at full speed
	}
	return nil, nil
}

// askLast is lastMessage of the stream of events for one attempt of an append.
func (j *Journal) askLast(ctx context.Context, subject string) (scan.Message, error) {
	var m scan.Message
	err := j.requests.Do(ctx, func(ctx context.Context) (err error) {
		m, err = j.stream.LastMessage(ctx, subject)
		return err
	})
	return m, err
}

// Last implements [journal.Journal].
func (j *Journal) Last(ctx context.Context, of *event.Event) (last event.Event, found bool, err error) {
	if err := j.usable(ctx); err != nil {
		return event.Event{}, false, err
	}
	if last, found = j.newest(of); found {
		return last, true, nil
	}
	bounded, cancel := j.within(ctx)
	defer cancel()
	err = j.requests.Repeat(bounded, j.asking, func(ctx context.Context) error {
		m, err := j.stream.LastMessage(ctx, j.messages.Subject(of))
		if err != nil || m.Seq == 0 {
			return err
		}
		last, found, err = j.messages.Decode(ctx, m)
		return err
	})
	return last, found, j.cause(ctx, err)
}

// KeepsLast implements [journal.Log].
func (j *Journal) KeepsLast() bool { return true }

// newest is the last event of an object, if it is one of the newest of the log. If it
// is not the last one, as somebody else writes, or the log has lost it, then nothing
// that follows from it is taken: it is not what is expected there.
func (j *Journal) newest(of *event.Event) (event.Event, bool) {
	at := j.subjects.Get(j.subjects.Hash(j.messages.Subject(of)))
	if at.Seq == 0 {
		return event.Event{}, false
	}
	e, ok := j.tail.At(at.Seq)
	return e, ok && at.ID == j.subjects.Hash(e.ID) && (of.Op.Control() || e.Key() == of.Key())
}

var _ journal.Journal = (*Journal)(nil)
