package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// destinationPause is between the first two attempts to repeat all objects to a sink. It
// doubles up to destinationLongest: an attempt may repeat all objects of a resource.
const (
	destinationPause   = 5 * time.Second
	destinationLongest = 5 * time.Minute
)

// destinationOf returns what the options of a sink say of its destination; see [sink.Destined].
func destinationOf(s config.Sink) (name string, identified bool) {
	if options, ok := s.Options.(sink.Destined); ok {
		return options.Destination()
	}
	return "", false
}

// moves reports whether a changed config has the sink continue at a destination that lacks the
// earlier events, and of which no identity will say so.
func moves(was, is config.Sink) bool {
	before, left := destinationOf(was)
	after, identified := destinationOf(is)
	return !identified && (was.Type != is.Type || left || before != after)
}

// elsewhere is the note of a sink whose cursor moves with a destination that has no identity,
// or with one that does not have every object yet. It equals no identity.
const elsewhere = "another destination"

// destinations notices that the destination of a sink is another one than before: somebody
// has deleted its stream, or changed the config of the sink. The sink then gets a gap event
// and every object again. The identity of a destination is noted in the journal once that is
// complete, so that a process which dies meanwhile leaves it to the next one.
type destinations struct {
	pipeline *pipeline
	operator operator
	life     context.Context //nolint:containedctx // ends with close
	end      context.CancelFunc

	mu      sync.Mutex
	sinks   map[string]*destination
	running sync.WaitGroup
}

// destination is the one that a sink delivers to. Another one replaces it.
type destination struct {
	identity string             // empty if it has none
	end      context.CancelFunc // ends settle; all below belongs to its goroutine
	// declared: the sink has got the gap event, and refilled are the resources that it has got.
	declared bool
	refilled map[string]bool
}

func newDestinations(p *pipeline, d *Daemon) *destinations {
	life, end := context.WithCancel(p.now)
	return &destinations{pipeline: p, operator: operator{d}, life: life, end: end, sinks: make(map[string]*destination)}
}

// reached notes the destination that a sink delivers to from now on. Identity is empty if it has
// none. The sink has not moved its cursor with it yet, and a journal saves both together: so
// no destination keeps a note that it has every object while another one gets the events.
func (d *destinations) reached(name, identity string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one, was := d.pipeline.delivery(name), d.sinks[name]
	if one == nil || was != nil && was.identity == identity {
		return
	}
	if was != nil {
		was.end()
	}
	ctx, end := context.WithCancel(d.life)
	of := &destination{identity: identity, end: end}
	d.sinks[name] = of
	noted, note := one.Note(), elsewhere
	if identity != "" && (noted == "" || noted == identity) {
		note = identity
	}
	one.SetNote(note)
	if identity != note && identity != "" && ctx.Err() == nil {
		d.running.Go(func() { d.settle(ctx, name, of, noted) })
	}
}

// close ends what is under way. The sinks have ended before.
func (d *destinations) close() {
	d.mu.Lock()
	d.end()
	d.mu.Unlock()
	d.running.Wait()
}

// settle repeats all objects to the sink until that has succeeded, or ctx ends: the sink has
// another destination.
func (d *destinations) settle(ctx context.Context, name string, of *destination, was string) {
	logged, pause := "", destinationPause
	for ctx.Err() == nil {
		err := d.attempt(ctx, name, of, was)
		if err == nil {
			return
		}
		if text := err.Error(); text != logged && ctx.Err() == nil && !errors.Is(err, errNoSink) {
			logged = text
			d.pipeline.logger.Warn("sink refill failed; retrying", "sink", name, "err", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, destinationLongest)
	}
}

// errTargets: targets are not live. It concerns one resource.
var errTargets = errors.New("not every target has announced its objects")

// errExpanding: targets are missing that the sink needs the objects of.
var errExpanding = errors.New("the wildcards are not expanded yet: the API server has not answered")

// errNoSink: the sink was removed.
var errNoSink = errors.New("the sink is not there")

// attempt declares the loss to the sink, repeats all objects, and notes that this is complete.
func (d *destinations) attempt(ctx context.Context, name string, of *destination, was string) error {
	p := d.pipeline
	one := p.delivery(name)
	if one == nil {
		return errNoSink
	}
	if err := d.declare(ctx, one, of, was); err != nil {
		return err
	}
	if !p.manager.Expanded() {
		return errExpanding
	}
	err := of.refillAll(d.resources(), func(resource string) error { return d.refill(ctx, resource, name) })
	if err != nil {
		return err
	}
	d.complete(name, of)
	return nil
}

// complete notes that a destination has every object, unless the sink has another one by now.
func (d *destinations) complete(name string, of *destination) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.pipeline.delivery(name); one != nil && d.sinks[name] == of {
		one.SetNote(of.identity)
	}
}

// refillAll repeats the objects of each resource that the destination has not got yet. A resource that fails, for example because it is not served, keeps no other one back,
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

// declare logs the loss, and has the sink get a gap event, once.
func (d *destinations) declare(ctx context.Context, one *delivery, of *destination, was string) error {
	if of.declared {
		return nil
	}
	p, name := d.pipeline, one.Name()
	p.logger.Warn("sink destination replaced; sending a gap and all objects",
		"sink", name, "was", was, "is", of.identity, "runbook", display.GapRunbook("destination"))
	gap := event.Event{
		ID: form.DestinationID(name, time.Now()), Op: event.Gap, Time: time.Now().UTC().Truncate(time.Microsecond),
		Cluster: p.cluster, Target: event.AllTargets,
		Gap: &event.GapInfo{Reason: "destination", Recovered: event.RecoveredState},
	}
	// A sink without gap events never gets it, and gets its objects all the same.
	if _, err := one.Insert(ctx, gap); err != nil && !errors.Is(err, deliver.ErrFilteredOut) {
		return err
	}
	one.KeepGap(gap)
	of.declared = true
	return nil
}

// refill repeats the objects of a resource to the sink. A memory journal may lack the data of some:
// then every sink gets them, from the API server.
func (d *destinations) refill(ctx context.Context, resource, name string) error {
	p := d.pipeline
	if p.store.Durable {
		_, err := d.operator.resnapshotTo(ctx, p, resource, name, deliver.Forever)
		if errors.Is(err, dynwatch.ErrNotListed) {
			err = fmt.Errorf("%w: %w", errTargets, err)
		}
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
