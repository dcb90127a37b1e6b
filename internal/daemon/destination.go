package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// destinationPause is between the first two attempts to repeat all objects to a sink. It
// doubles up to destinationLongest: an attempt may repeat all objects of a resource.
const (
	destinationPause   = 5 * time.Second
	destinationLongest = 5 * time.Minute
)

// destinations notices that the destination of a sink is another one than before: somebody
// has deleted its stream. The sink then gets a gap event and every object again. The
// identity of a destination is noted in the journal once that is complete, so that a
// process which dies meanwhile leaves it to the next one.
type destinations struct {
	pipeline *pipeline
	operator operator
	life     context.Context //nolint:containedctx // ends with close
	end      context.CancelFunc

	mu      sync.Mutex
	sinks   map[string]*destination
	running sync.WaitGroup
}

// destination is that of one sink.
type destination struct {
	// found is the identity that the sink has found last. The lock of destinations guards
	// it, and refilling: a goroutine compares it with what is known. All else belongs to
	// that goroutine.
	found     string
	refilling bool
	// known is the identity that has every object, declared the one that the last gap event
	// was about, and refilled the resources that the declared one has.
	known, declared string
	refilled        map[string]bool
}

func newDestinations(p *pipeline, d *Daemon) *destinations {
	life, end := context.WithCancel(p.now)
	return &destinations{pipeline: p, operator: operator{d}, life: life, end: end, sinks: make(map[string]*destination)}
}

// of is [sink.Env.Found] of a sink.
func (d *destinations) of(name string) func(identity string) {
	return func(identity string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		of := d.sinks[name]
		if of == nil {
			of = new(destination)
			d.sinks[name] = of
		}
		of.found = identity
		if !of.refilling && d.life.Err() == nil {
			of.refilling = true
			d.running.Go(func() { d.settle(name, of) })
		}
	}
}

// close ends what is under way. The sinks have ended before.
func (d *destinations) close() {
	d.mu.Lock()
	d.end()
	d.mu.Unlock()
	d.running.Wait()
}

// settle compares what was found with what is known, until they are the same.
func (d *destinations) settle(name string, of *destination) {
	logged, pause := "", destinationPause
	for ctx := d.life; ; {
		d.mu.Lock()
		found := of.found
		if found == of.known || ctx.Err() != nil {
			of.refilling = false
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		if err := d.compare(ctx, name, of, found); err != nil {
			if text := err.Error(); text != logged && !errors.Is(err, errNoSink) {
				logged = text
				d.pipeline.logger.Warn("sink refill failed; retrying", "sink", name, "err", err)
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, destinationLongest)
			continue
		}
		of.known = found
	}
}

// errTargets: targets are not live. It concerns one resource.
var errTargets = errors.New("not every target has announced its objects")

// errExpanding: targets are missing that the sink needs the objects of.
var errExpanding = errors.New("the wildcards are not expanded yet: the API server has not answered")

// errNoSink: the sink is being made, or was removed.
var errNoSink = errors.New("the sink is not there")

// compare repeats all objects to the sink if its destination is not the one that is noted.
func (d *destinations) compare(ctx context.Context, name string, of *destination, found string) error {
	p := d.pipeline
	all := p.deliveries()
	i := slices.IndexFunc(all, func(one *delivery) bool { return one.Name() == name })
	if i < 0 {
		return errNoSink
	}
	one := all[i]
	noted := of.known
	if note := one.Note(); note != "" {
		noted = note
	}
	if noted == "" || noted == found {
		one.SetNote(found)
		return nil
	}
	if err := d.declare(ctx, one, of, noted, found); err != nil {
		return err
	}
	if !p.manager.Expanded() {
		return errExpanding
	}
	err := of.refillAll(d.resources(), func(resource string) error { return d.refill(ctx, resource, name) })
	if err != nil {
		return err
	}
	one.SetNote(found)
	return nil
}

// refillAll repeats the objects of each resource that the declared destination has not got
// yet. A resource that fails, for example because it is not served, keeps no other one back,
// and the next attempt repeats that resource alone.
func (d *destination) refillAll(resources []string, refill func(resource string) error) error {
	if d.refilled == nil {
		d.refilled = make(map[string]bool)
	}
	var errs []error
	for _, resource := range resources {
		if d.refilled[resource] {
			continue
		}
		err := refill(resource)
		// A wildcard without a resource is a target, and has no objects.
		if err == nil || errors.Is(err, dynwatch.ErrUnknownResource) {
			d.refilled[resource] = true
			continue
		}
		errs = append(errs, err)
		if !errors.Is(err, errTargets) {
			break // the sink does not get any resource
		}
	}
	return errors.Join(errs...)
}

// declare logs the loss, and has the sink get a gap event.
func (d *destinations) declare(ctx context.Context, one *delivery, of *destination, was, is string) error {
	p, name := d.pipeline, one.Name()
	return of.declareOnce(is, func() error {
		p.logger.Warn("sink destination replaced; sending a gap and all objects",
			"sink", name, "was", was, "is", is)
		_, err := one.Insert(ctx, event.Event{
			ID: event.DestinationID(name, time.Now()), Op: event.Gap, Time: time.Now().UTC().Truncate(time.Microsecond),
			Cluster: p.config.Cluster, Target: event.AllTargets,
			Gap: &event.GapInfo{Reason: "destination", Recovered: event.RecoveredState},
		})
		return err
	})
}

// declareOnce calls insert until it has succeeded once for each destination of a sink.
func (d *destination) declareOnce(is string, insert func() error) error {
	if d.declared == is {
		return nil
	}
	if err := insert(); err != nil {
		return err
	}
	d.declared, d.refilled = is, nil
	return nil
}

// refill repeats the objects of a resource to the sink. A memory journal keeps no states:
// then every sink gets them.
func (d *destinations) refill(ctx context.Context, resource, name string) error {
	p := d.pipeline
	if p.store.Durable {
		_, err := d.operator.resnapshotTo(ctx, p, resource, name)
		return err
	}
	results, err := p.manager.Resnapshot(ctx, resource)
	for _, r := range results {
		if r.Err != nil {
			err = errors.Join(err, fmt.Errorf("%w: %s: %w", errTargets, r.Target, r.Err))
		}
	}
	return err
}

// resources are those that targets are of.
func (d *destinations) resources() []string {
	names := make(map[string]bool)
	for _, t := range d.pipeline.manager.Targets() {
		if t.Resource != "" {
			names[event.GroupOrCore(t.Group)+"/"+t.Resource] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
