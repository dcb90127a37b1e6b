package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch"
)

// operator does what is asked of the running pipeline. It implements
// [admin.Operator].
type operator struct{ daemon *Daemon }

const (
	// rewindTimeout bounds the wait for a sink that goes back: for one that does not
	// return from a write although it was told to, or for a journal that does not answer.
	rewindTimeout = 30 * time.Second
	// pendingAfter is how long a re-snapshot waits for a sink that is down.
	pendingAfter = 15 * time.Second
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
	if one := p.delivery(sink); one != nil {
		return one, nil
	}
	return nil, unknownSink(sink, names(p.deliveries()))
}

func (o operator) EachLetter(ctx context.Context, sink string, take func(admin.Letter) error) error {
	p, err := o.pipeline()
	if err != nil {
		return err
	}
	boxes, names := p.boxes()
	if sink != "" {
		if boxes[sink] == nil {
			return unknownSink(sink, names)
		}
		names = []string{sink}
	}
	for _, name := range names {
		err := boxes[name].Box.Each(ctx, func(number uint64, letter []byte) error {
			return take(admin.Letter{Sink: name, Number: number, Letter: letter})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// boxes returns the dead letters of the source, of the sinks, and of sinks that are no longer
// in the config, in this order.
func (p *pipeline) boxes() (boxes map[string]*deliver.DeadLetters, names []string) {
	boxes, names = map[string]*deliver.DeadLetters{config.SourceName: p.source}, []string{config.SourceName}
	for _, one := range p.deliveries() {
		boxes[one.Name()] = one.DeadLetters()
		names = append(names, one.Name())
	}
	for _, name := range slices.Sorted(maps.Keys(p.store.LetterCounts())) {
		if boxes[name] == nil {
			boxes[name] = deliver.NewDeadLetters(name, p.store.DeadLetters(name))
			names = append(names, name)
		}
	}
	return boxes, names
}

// find returns the numbers of the wanted letters in a box, of all if wanted is empty. A letter
// can have megabytes, so it keeps none.
func find(ctx context.Context, box *deliver.DeadLetters, wanted []uint64) ([]uint64, error) {
	var found []uint64
	err := box.Box.Each(ctx, func(number uint64, _ []byte) error {
		if len(wanted) == 0 || slices.Contains(wanted, number) {
			found = append(found, number)
		}
		return nil
	})
	if err == nil && len(found) < len(wanted) {
		var missing []string
		for _, number := range wanted {
			if !slices.Contains(found, number) {
				missing = append(missing, strconv.FormatUint(number, 10))
			}
		}
		err = admin.Unknown("this sink has no dead letter of number %s, and informd changed nothing: informd deadletters list shows the numbers", strings.Join(missing, ", "))
	}
	return found, err
}

func (o operator) RedeliverLetters(ctx context.Context, sink string, numbers []uint64) (admin.Count, error) {
	r, err := o.sink(sink)
	if err != nil {
		return admin.Count{}, err
	}
	found, err := find(ctx, r.DeadLetters(), numbers)
	if err != nil || len(found) == 0 {
		return admin.Count{}, err
	}
	n, err := r.Redeliver(ctx, found)
	if err != nil {
		return admin.Count{}, err
	}
	return admin.Count{Events: n.Accepted, Refused: n.Refused, Filtered: n.Filtered}, nil
}

func (o operator) DropLetters(ctx context.Context, sink string, numbers []uint64) (admin.Count, error) {
	p, err := o.pipeline()
	if err != nil {
		return admin.Count{}, err
	}
	boxes, names := p.boxes()
	box := boxes[sink]
	if box == nil {
		return admin.Count{}, unknownSink(sink, names)
	}
	found, err := find(ctx, box, numbers)
	if err != nil {
		return admin.Count{}, err
	}
	return admin.Count{Events: len(found)}, box.Drop(ctx, found...)
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
		return o.resnapshotTo(ctx, p, resource, sink, pendingAfter)
	}
	results, err := p.manager.Resnapshot(ctx, resource)
	if err != nil {
		return nil, err
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
// server. The sink logs the outcome.
func (o operator) resnapshotTo(ctx context.Context, p *pipeline, resource, sink string, patience time.Duration) ([]admin.Resnapshot, error) {
	r, err := o.sink(sink)
	if err != nil {
		return nil, err
	}
	what, err := p.manager.Brackets(resource)
	if err != nil {
		return nil, err
	}
	logger, pending := p.logger.With("sink", sink, "resource", resource, "run", what.Run), ""
	logger.Info("re-snapshot started")
	objects, err := r.Resnapshot(ctx, what, patience)
	switch {
	case errors.Is(err, deliver.ErrPending):
		logger.Info("re-snapshot pending until the sink works")
		pending = display.Reason(err.Error()) // it begins later
	case err != nil:
		return nil, fmt.Errorf("resnapshot %s, run %d: %w", resource, what.Run, err)
	}
	outcomes := make([]admin.Resnapshot, len(what.Begin))
	for i := range what.Begin {
		target := what.Begin[i].Target
		outcomes[i] = admin.Resnapshot{Target: target, Run: what.Run, Objects: objects[target], Pending: pending}
	}
	return outcomes, nil
}

func (o operator) Reload(ctx context.Context) (admin.Reload, error) {
	if _, err := o.pipeline(); err != nil {
		return admin.Reload{}, err // a follower reads the file by itself
	}
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
	results, err := p.manager.Audit(ctx)
	if err != nil {
		return nil, err
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
		verdicts[i] = admin.Verdict{Target: r.Target, Objects: r.Objects, Divergences: r.Divergences}
		switch reason, absent := absent[r.Target]; {
		case r.Err != nil && absent:
			verdicts[i].Skipped = display.Reason(reason)
		case r.Err != nil:
			verdicts[i].Error = display.Reason(r.Err.Error())
		}
	}
	return verdicts, nil
}
