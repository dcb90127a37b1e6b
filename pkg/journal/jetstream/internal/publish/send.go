package publish

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/conflict"
	"github.com/informd/informd/pkg/journal/jetstream/internal/lastindex"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// errBehind marks an event that was not sent because the one before it of the same
// object was not acknowledged.
var errBehind = errors.New("the previous event of the same object is not in the journal yet")

// Append appends events until the stream has all of them, or returns those that it may lack.
func (p *Publisher) Append(ctx context.Context, events []event.Event) (rest []event.Event, err error) {
	if err := p.Usable(ctx); err != nil {
		return events, err
	}
	if len(events) == 0 {
		return nil, nil
	}
	bounded, cancel := p.Within(ctx)
	defer cancel()
	pending := make([]*Flight, len(events))
	for i := range events {
		pending[i] = p.prepare(&events[i])
		pending[i].at = i
	}
	left, err := p.appendAll(bounded, pending)
	for _, f := range left {
		if !f.hasLanded() {
			rest = append(rest, events[f.at])
		}
	}
	return rest, p.Cause(ctx, err)
}

func (p *Publisher) prepare(e *event.Event) *Flight {
	f, ok := p.spare.Get().(*Flight)
	if !ok {
		f = NewFlight()
	}
	f.event, f.id = *e, p.Subjects.Hash(e.ID)
	// Readers share it from the tail, and the client sends it even if no call waits.
	f.event.Data = bytes.Clone(e.Data)
	f.values, f.most = p.Messages.Fill(f.Message, f.values, &f.event)
	f.subject = p.Subjects.Hash(f.Message.Subject)
	return f
}

// appendAll makes attempts until every event is in the log. After an error, left has the
// events whose last attempt did not bring them in, among others.
func (p *Publisher) appendAll(ctx context.Context, pending []*Flight) (left []*Flight, err error) {
	var pause server.Backoff
	blocked := false
	defer func() {
		if blocked {
			p.Blocked.Add(-1)
		}
	}()
	for {
		if err := p.attempt(ctx, pending); err != nil {
			return pending, err
		}
		trouble, err := p.review(ctx, pending)
		if err != nil {
			return pending, err
		}
		if pending = p.remaining(pending); len(pending) == 0 {
			p.appending.Over()
			return nil, nil
		}
		if trouble == nil {
			pause = server.Backoff{}
			continue
		}
		if !blocked {
			blocked = true
			p.Blocked.Add(1)
		}
		p.appending.Begin(trouble)
		switch {
		case errors.Is(trouble, js.ErrNoStreamResponse):
			p.Missing()
		case IsFull(trouble):
			p.Short()
		}
		if err := pause.Wait(ctx); err != nil {
			return pending, err
		}
	}
}

// remaining leaves out what has landed. Nobody else knows that any more: it is used
// again.
func (p *Publisher) remaining(pending []*Flight) []*Flight {
	rest := pending[:0]
	for _, f := range pending {
		if f.landed {
			f.empty()
			p.spare.Put(f)
		} else {
			rest = append(rest, f)
		}
	}
	return rest
}

// attempt sends the events, one after the other without any of another call in
// between, and waits for what comes of each.
func (p *Publisher) attempt(ctx context.Context, pending []*Flight) error {
	if err := p.Allowed(); err != nil {
		return err
	}
	limit := p.Messages.Limit()
	for _, f := range pending {
		f.err = nil
		if len(f.Message.Data) > 0 && f.most > limit && !p.Messages.Fits(f.Message) {
			f.err = p.shrinkOften(ctx, f)
		}
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := p.launchAll(ctx, pending)
	<-p.turn // only now may another call send
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

// shrinkOften is shrink with a bound: an object store that fails for long, although the server
// can be reached and has space, does not hold the event up any longer.
func (p *Publisher) shrinkOften(ctx context.Context, f *Flight) error {
	f.most = math.MaxInt64
	began := time.Now()
	err := p.Messages.Shrink(ctx, &f.event, f.Message)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case IsFull(err) || !p.Conn.IsConnected():
		f.refused = 0
		return err
	case !f.noteRefusal(began):
		return err
	}
	p.Messages.Reduce(&f.event, f.Message, err)
	return nil
}

// launchAll sends the events. The outcome of some is still to come.
func (p *Publisher) launchAll(ctx context.Context, pending []*Flight) error {
	if err := p.Allowed(); err != nil { // again: the turn may have taken long to come
		return err
	}
	before := make(map[uint64]*Flight, len(pending)) // by subject
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
		if f.err = p.keepEnd(ctx, f); f.err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		if err := p.launch(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// review decides about each failed event. The trouble it returns is the
// reason to wait before the next attempt; the error ends the append.
func (p *Publisher) review(ctx context.Context, pending []*Flight) (trouble, err error) {
	for _, f := range pending {
		switch {
		case f.landed || errors.Is(f.err, errBehind):
		case isStale(f.err):
			doubt, err := p.reconsider(ctx, f)
			if err != nil {
				return nil, err
			}
			trouble = first(trouble, doubt)
		case isTooLarge(f.err) && len(f.event.Data) > 0:
			// The limit has just been lowered, or is the server's secret.
			f.most = math.MaxInt64
			if err := p.Messages.Shrink(ctx, &f.event, f.Message); err != nil {
				trouble = first(trouble, err)
			} else if f.shrunk++; f.shrunk > 1 {
				p.Messages.Reduce(&f.event, f.Message, f.err)
			}
		case p.isHopeless(f):
			trouble = first(trouble, p.giveUp(ctx, f))
		default:
			trouble = first(trouble, f.err)
		}
	}
	if err := p.Loss(); err != nil {
		return nil, err
	}
	return trouble, nil
}

// reconsider looks at what a subject ends with, other than expected. Doubt is the
// reason why it could not.
func (p *Publisher) reconsider(ctx context.Context, f *Flight) (doubt, err error) {
	m, err := p.AskLast(ctx, f.Message.Subject)
	if err != nil {
		return err, nil
	}
	last := conflict.Last{Seq: m.Seq}
	if m.Seq != 0 {
		// What cannot be parsed is no event: it has no id and no revision.
		last.Event, _ = message.Parse(m.Header)
	}
	verdict, err := conflict.Resolve(&f.event, last, f.sent)
	if errors.Is(err, conflict.ErrLost) {
		if !p.AfterLoss || f.sent != 0 {
			p.Lose(err)
			return nil, err
		}
		// The journal is known to have lost events, which include the one before this.
	} else if err != nil {
		return nil, err
	}
	p.Subjects.Set(f.subject, lastindex.Entry{Seq: m.Seq, ID: p.Subjects.Hash(last.Event.ID), Ends: last.Event.Op.Ends()})
	if verdict == conflict.Held {
		f.landed = true
		p.Tail.Reach(m.Seq)
	} else if m.Seq == f.sent {
		return f.err, nil // it changed back and forth: not at full speed
	}
	return nil, nil
}

// settle waits for the outcome of the attempt, if there is one to come.
func (f *Flight) settle(ctx context.Context) error {
	if !f.flying {
		return nil
	}
	select {
	case f.err = <-f.Outcome:
		f.flying, f.landed = false, f.err == nil
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hasLanded reports whether the event is known to be in the log.
func (f *Flight) hasLanded() bool {
	if f.flying {
		select {
		case f.err = <-f.Outcome:
			f.flying, f.landed = false, f.err == nil
		default:
		}
	}
	return f.landed
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// keepEnd puts a copy of what the event's subject ends with into the log if that
// is the end of an object which a cursor has still to read.
func (p *Publisher) keepEnd(ctx context.Context, f *Flight) error {
	last := p.Subjects.Get(f.subject)
	if !last.Ends || last.ID == f.id || last.Seq == f.kept || !p.Unread(last.Seq) {
		return nil
	}
	m, err := p.AskLast(ctx, f.Message.Subject)
	if err != nil {
		return err
	}
	if m.Seq != last.Seq {
		return nil // the condition on the event will fail, and it comes here again
	}
	e, ok, err := p.Messages.Decode(ctx, m)
	if err != nil || !ok {
		return err
	}
	c := &Flight{event: e, Message: message.NewCopy(p.Root, &e, m), copyOf: m.Seq, Outcome: make(chan error, 1)}
	for {
		if err := p.Flights.Send(ctx, c); err != nil {
			return err
		}
		if err := c.settle(ctx); err != nil {
			return err
		}
		switch {
		case c.err == nil, isStale(c.err): // it is there
			f.kept = m.Seq
			return nil
		case !isTooLarge(c.err) || len(c.Message.Data) == 0:
			return c.err
		}
		p.Messages.Bare(&c.event, c.Message, c.err) // the limit has been lowered since
	}
}
