package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/journal"
)

// operator does what is asked of the running pipeline. It implements
// [admin.Operator].
type operator struct{ daemon *Daemon }

const (
	// dropTimeout bounds the dropping of letters after an operator has gone away.
	dropTimeout = 10 * time.Second
	// rewindTimeout bounds the wait for a sink that goes back: for one that does not
	// return from a write although it was told to, or for a journal that does not answer.
	rewindTimeout = 30 * time.Second
)

var errNotOpen = errors.New("the journal is not open yet")

func (o operator) pipeline() (*pipeline, error) {
	if p := o.daemon.pipeline.Load(); p != nil {
		return p, nil
	}
	return nil, o.daemon.notOpen()
}

// sink finds a sink by its name.
func (o operator) sink(sink string) (*delivery, error) {
	p, err := o.pipeline()
	if err != nil {
		return nil, err
	}
	all := p.deliveries()
	if i := slices.IndexFunc(all, func(one *delivery) bool { return one.Name() == sink }); i >= 0 {
		return all[i], nil
	}
	return nil, unknownSink(sink, names(all))
}

func (o operator) EachLetter(ctx context.Context, sink string, take func(admin.Letter) error) error {
	p, err := o.pipeline()
	if err != nil {
		return err
	}
	boxes, names, err := p.boxes(ctx)
	if err != nil {
		return err
	}
	if sink != "" {
		if boxes[sink] == nil {
			return unknownSink(sink, names)
		}
		names = []string{sink}
	}
	for _, name := range names {
		err := boxes[name].Each(ctx, func(k deliver.Kept) error {
			return take(admin.Letter{Sink: name, Number: k.Number, Letter: k.JSON})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// boxes returns the dead letters of the source, of the sinks, and of sinks that are no longer
// in the config, in this order.
func (p *pipeline) boxes(ctx context.Context) (boxes map[string]*deliver.DeadLetters, names []string, err error) {
	counts, err := p.store.Letters(ctx)
	if err != nil {
		return nil, nil, err
	}
	boxes, names = map[string]*deliver.DeadLetters{config.SourceName: p.source}, []string{config.SourceName}
	for _, one := range p.deliveries() {
		boxes[one.Name()] = one.DeadLetters()
		names = append(names, one.Name())
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if boxes[name] == nil {
			boxes[name] = deliver.NewDeadLetters(name, p.store.Box(name))
			names = append(names, name)
		}
	}
	return boxes, names, nil
}

// letters returns the wanted letters of a box, all of them if there are no numbers.
func letters(ctx context.Context, box *deliver.DeadLetters, numbers []uint64) ([]deliver.Kept, error) {
	var found []deliver.Kept
	err := box.Each(ctx, func(k deliver.Kept) error {
		if len(numbers) == 0 || slices.Contains(numbers, k.Number) {
			found = append(found, k)
		}
		return nil
	})
	if err == nil && len(found) < len(numbers) {
		err = admin.Unknown("%d of %d numbers name no dead letter of this sink: informd deadletters list shows them", len(numbers)-len(found), len(numbers))
	}
	return found, err
}

func (o operator) RedeliverLetters(ctx context.Context, sink string, numbers []uint64) (admin.Count, error) {
	r, err := o.sink(sink)
	if err != nil {
		return admin.Count{}, err
	}
	wanted, err := letters(ctx, r.DeadLetters(), numbers)
	if err != nil {
		return admin.Count{}, err
	}
	defer o.daemon.letters.forget()
	run, refused := o.daemon.runs.Next(), 0
	var done []uint64
	for _, l := range wanted {
		if l.Event == nil {
			continue // a damaged letter cannot be delivered
		}
		e := *l.Event
		e.SetRun(run)
		e.Redelivered = true
		accepted, err := r.Insert(ctx, e)
		if err != nil {
			// What was delivered is not to be delivered again the next time.
			dropping, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
			defer cancel()
			return admin.Count{}, errors.Join(err, r.DeadLetters().Drop(dropping, done...))
		}
		if !accepted {
			refused++ // and a new dead letter, with this run in its id
		}
		done = append(done, l.Number)
	}
	return admin.Count{Events: len(done) - refused, Refused: refused}, r.DeadLetters().Drop(ctx, done...)
}

func (o operator) DropLetters(ctx context.Context, sink string, numbers []uint64) (admin.Count, error) {
	p, err := o.pipeline()
	if err != nil {
		return admin.Count{}, err
	}
	boxes, names, err := p.boxes(ctx)
	if err != nil {
		return admin.Count{}, err
	}
	box := boxes[sink]
	if box == nil {
		return admin.Count{}, unknownSink(sink, names)
	}
	wanted, err := letters(ctx, box, numbers)
	if err != nil {
		return admin.Count{}, err
	}
	defer o.daemon.letters.forget()
	drop := make([]uint64, len(wanted))
	for i, l := range wanted {
		drop[i] = l.Number
	}
	return admin.Count{Events: len(drop)}, box.Drop(ctx, drop...)
}

func (o operator) Rewind(ctx context.Context, sink string, since time.Time) (admin.Rewind, error) {
	r, err := o.sink(sink)
	if err != nil {
		return admin.Rewind{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, rewindTimeout)
	defer cancel()
	before := r.Status()
	n, err := r.Rewind(ctx, since)
	now := r.Status()
	switch {
	case errors.Is(err, journal.ErrNotKept):
		return admin.Rewind{}, fmt.Errorf("%w: it needs journal.type embedded or nats", err)
	case errors.Is(err, context.DeadlineExceeded):
		return admin.Rewind{}, fmt.Errorf("within %v: %w; the sink is %s, its last error: %q", rewindTimeout, err, now.State, now.LastError)
	case err != nil:
		return admin.Rewind{}, err
	}
	outcome := admin.Rewind{Events: n}
	// The one that was down begins anew: it is taken to be down until it delivers.
	if before.State != deliver.Running && now.LastSuccess.Equal(before.LastSuccess) {
		outcome.State, outcome.Error = string(before.State), now.LastError
	}
	return outcome, nil
}

func (o operator) Resnapshot(ctx context.Context, resource, sink string) ([]admin.Resnapshot, error) {
	p, err := o.pipeline()
	if err != nil {
		return nil, err
	}
	if resource, err = watchedResource(resource, p.manager.Targets()); err != nil {
		return nil, err
	}
	if sink != "" {
		return o.resnapshotTo(ctx, p, resource, sink)
	}
	ctx, release, err := p.store.WhileUsable(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	results, err := p.manager.Resnapshot(ctx, resource)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	outcomes := make([]admin.Resnapshot, len(results))
	for i, r := range results {
		outcomes[i] = admin.Resnapshot{Target: r.Target, Run: r.Run, Objects: r.Objects}
		if r.Err != nil {
			outcomes[i].Error = display.Reason(r.Err.Error())
		}
	}
	return outcomes, nil
}

// resnapshotTo has one sink get what the journal has, which asks nothing of the API
// server.
func (o operator) resnapshotTo(ctx context.Context, p *pipeline, resource, sink string) ([]admin.Resnapshot, error) {
	r, err := o.sink(sink)
	if err != nil {
		return nil, err
	}
	brackets, run, err := p.manager.Brackets(resource)
	if err != nil {
		return nil, err
	}
	if !p.store.Durable {
		return nil, errors.New("a memory journal does not keep the states of objects: for one sink it takes journal.type embedded or nats; " +
			"without --sink all sinks get them, from the API server")
	}
	what := journal.Resnapshot{Run: run}
	for _, b := range brackets {
		what.Begin, what.End = append(what.Begin, b.Begin), append(what.End, b.End)
	}
	logger, pending := p.logger.With("sink", sink, "resource", resource, "run", run), ""
	logger.Info("re-snapshot started")
	objects, err := r.Resnapshot(ctx, what)
	switch {
	case errors.Is(err, deliver.ErrPending):
		logger.Info("re-snapshot pending until the sink works")
		pending = display.Reason(err.Error()) // it begins later
	case err != nil:
		logger.Warn("re-snapshot incomplete; run informd resnapshot again", "err", err)
		return nil, fmt.Errorf("resnapshot %s, run %d: %w", resource, run, err)
	default:
		logger.Info("re-snapshot complete")
	}
	outcomes := make([]admin.Resnapshot, len(brackets))
	for i, b := range brackets {
		outcomes[i] = admin.Resnapshot{Target: b.Begin.Target, Run: run, Objects: objects[b.Begin.Target], Pending: pending}
	}
	return outcomes, nil
}

func (o operator) Reload(ctx context.Context) (admin.Reload, error) {
	done, err := o.daemon.reload(ctx)
	if errors.As(err, new(config.Errors)) {
		return admin.Reload{}, fmt.Errorf("%w: %w", admin.ErrUnacceptable, err)
	}
	return done, err
}

func (o operator) Verify(ctx context.Context) ([]admin.Verdict, error) {
	p, err := o.pipeline()
	if err != nil {
		return nil, err
	}
	ctx, release, err := p.store.WhileUsable(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	results, err := p.manager.Audit(ctx)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	absent := make(map[string]string) // targets that the API server does not serve
	for _, t := range p.manager.Targets() {
		// With objects, the API server may only say so: see [dynwatch.Waiting].
		if t.State == dynwatch.Waiting && t.Objects == 0 {
			absent[t.Name] = t.Reason
		}
	}
	verdicts := make([]admin.Verdict, len(results))
	for i, r := range results {
		verdicts[i] = admin.Verdict{Target: r.Target, Objects: r.Objects, Divergences: r.Divergences, Mismatches: r.Mismatches}
		switch reason, absent := absent[r.Target]; {
		case r.Err != nil && absent:
			verdicts[i].Skipped = display.Reason(reason)
		case r.Err != nil:
			verdicts[i].Error = display.Reason(r.Err.Error())
		}
	}
	return verdicts, nil
}
