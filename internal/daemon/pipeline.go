package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/sink"
)

// pipeline is the way of the events: watches, journal, sinks.
type pipeline struct {
	cluster string
	logger  *slog.Logger
	store   *clusterJournal
	source  *deliver.DeadLetters
	manager *dynwatch.Manager
	// delivering waits for the runners, which are run with now.
	delivering sync.WaitGroup
	now        context.Context //nolint:containedctx // that of Run, for sinks that are added later

	destinations *destinations
	// repeating has the objects of targets with resnapshotEvery announced again.
	repeating repeating

	mu  sync.Mutex
	all []*delivery // in the order of the config
	// leaving are those that were told to end, and may hang.
	leaving []*delivery
}

// delivery is a sink of the config and its runner.
type delivery struct {
	config config.Sink
	setup  deliver.Setup
	*deliver.Runner
}

// newPipeline makes everything of a config on an open journal and starts nothing. After an error
// nothing is left open but the journal.
func newPipeline(now context.Context, d *Daemon, c *config.Config, s *clusterJournal) (*pipeline, error) {
	key, err := redactionKey(c)
	if err != nil {
		return nil, err
	}
	p := &pipeline{cluster: c.Cluster, logger: d.logger, store: s, now: now}
	p.destinations = newDestinations(p, d)
	p.source = deliver.NewDeadLetters(config.SourceName, s.DeadLetters(config.SourceName))
	p.manager, err = dynwatch.New(dynwatch.Options{
		Cluster: c.Cluster, Kubernetes: d.kubernetes, Log: shownLog{s, &d.tails}, Reject: rejectTo(p.source, d.logger),
		RedactionKey: key, PlainAnnotations: c.Redaction.PlainAnnotations, MaxWatches: c.Kubernetes.MaxWatches, AuditEvery: cmp.Or(c.Kubernetes.AuditEvery, -1), MaxDelay: c.Kubernetes.MaxDelay, Logger: d.logger,
	})
	if err != nil {
		return nil, err
	}
	for _, s := range c.Sinks {
		one, err := p.newDelivery(d, s, p.setup(d, s))
		if err != nil {
			return nil, errors.Join(err, p.abandon())
		}
		p.all = append(p.all, one)
	}
	if err := registerMetrics(d.registry, p.manager, s); err != nil {
		return nil, errors.Join(err, p.abandon())
	}
	return p, nil
}

// setup makes of a sink's entry what its runner works by.
func (p *pipeline) setup(d *Daemon, s config.Sink) deliver.Setup {
	env := sink.Env{Name: s.Name, Cluster: p.cluster, Logger: p.logger.With("sink", s.Name), Stdout: d.stdout}
	_, identified := destinationOf(s)
	if identified {
		env.Found = func(identity string) { p.destinations.reached(s.Name, identity) }
	}
	lanes := s.Driver.Lanes
	if laned, ok := s.Options.(sink.Laned); ok {
		lanes = laned.Lanes()
	}
	return deliver.Setup{
		Type: s.Type, Lanes: lanes, Route: newRoute(s),
		Open: func(ctx context.Context) (sink.Sink, error) {
			opened, err := s.Options.Open(ctx, env)
			if l := d.leading.Load(); l != nil && err == nil {
				opened = fenced{opened, l}
			}
			if err == nil && !identified {
				p.destinations.reached(s.Name, "")
			}
			return opened, err
		},
	}
}

// newDelivery makes the runner of a sink, which has its cursor from then on.
func (p *pipeline) newDelivery(d *Daemon, s config.Sink, setup deliver.Setup) (*delivery, error) {
	cursor, err := p.store.Open(s.Name, start(s.Start))
	if err != nil {
		return nil, fmt.Errorf("sink %q: %w", s.Name, err)
	}
	r, err := deliver.New(cursor, func() uint64 { return p.store.Stats().LastSeq }, deliver.Options{
		Name: s.Name, Setup: setup,
		DeadLetters: deliver.NewDeadLetters(s.Name, p.store.DeadLetters(s.Name)),
		Logger:      p.logger.With("sink", s.Name), Registerer: d.registry,
	})
	if err != nil {
		return nil, err
	}
	return &delivery{config: s, setup: setup, Runner: r}, nil
}

// deliveries returns the sinks of now.
func (p *pipeline) deliveries() []*delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// delivery returns the sink of a name, or nil.
func (p *pipeline) delivery(name string) *delivery {
	all := p.deliveries()
	i := slices.IndexFunc(all, func(one *delivery) bool { return one.config.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// keep makes these the sinks of now.
func (p *pipeline) keep(all []*delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = all
}

// leave remembers a sink that is told to end until it has.
func (p *pipeline) leave(one *delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = append(slices.DeleteFunc(p.leaving, func(d *delivery) bool { return d.Status().State == deliver.Stopped }), one)
}

// run starts the delivery.
func (p *pipeline) run(one *delivery) {
	p.delivering.Go(func() {
		if err := one.Run(p.now); err != nil {
			p.logger.Error("sink stopped; restart informd", "sink", one.Name(), "err", err)
		}
	})
}

// discard gives back what was made, when it was not started.
func (d *delivery) discard() error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return d.Run(ended)
}

// abandon gives back what was made, when nothing was started.
func (p *pipeline) abandon() error {
	var errs []error
	for _, one := range p.deliveries() {
		errs = append(errs, one.discard())
	}
	p.destinations.close()
	p.manager.Close()
	return errors.Join(errs...)
}

// start begins with the end of the pipe, and watches the resources of a config.
func (p *pipeline) start(c *config.Config) error {
	for _, one := range p.deliveries() {
		p.run(one)
	}
	if err := p.manager.Apply(wanted(c)); err != nil {
		return errors.Join(err, p.drain(p.now))
	}
	p.repeating.start(p.now, p)
	return nil
}

// warnOfWaiting names the sinks that draining will wait for.
func (p *pipeline) warnOfWaiting() {
	for _, one := range p.deliveries() {
		if s := one.Status(); s.LagEvents > 0 && s.LastError != "" {
			p.logger.Warn("stop waits for a failing sink", "sink", s.Name, "count", s.LagEvents, "err", s.LastError,
				"next", "the sink gets the events before informd stops, or after the next start if the journal is durable")
		}
	}
}

// drain ends the watches, then delivers what the journal holds, within the grace
// period, and closes the journal.
func (p *pipeline) drain(now context.Context) error {
	p.repeating.end()
	p.manager.Close()
	draining, cancel := context.WithTimeout(now, grace)
	defer cancel()
	p.mu.Lock()
	all, staying := slices.Concat(p.all, p.leaving), len(p.all)
	p.mu.Unlock()
	errs := make([]error, len(all))
	hung := make([]error, len(all)) // runners that will never return
	var drains sync.WaitGroup
	for i, one := range all {
		drains.Go(func() {
			left, err := one.Drain(draining)
			hung[i], errs[i] = err, err
			if i < staying {
				errs[i] = errors.Join(err, p.leftBehind(one.Runner, left))
			}
		})
	}
	drains.Wait()
	if errors.Join(hung...) == nil {
		p.delivering.Wait()
		p.destinations.close()
	} else {
		errs = append(errs, errHangs) // what hangs may still write: only the end of the process ends it
	}
	p.destinations.end()
	return errors.Join(append(errs, p.store.Close())...)
}

// leftBehind says what becomes of the events that a sink did not take: an error,
// if they are lost.
func (p *pipeline) leftBehind(r *deliver.Runner, left uint64) error {
	if left == 0 {
		return nil
	}
	s := r.Status()
	reason := cmp.Or(s.LastError, "none")
	if p.store.Durable {
		p.logger.Info("sink stopped with undelivered events; they follow after the next start", "sink", s.Name, "count", left, "err", reason)
		return nil
	}
	return fmt.Errorf("sink %s: %d events were not delivered (last error: %s)", s.Name, left, reason)
}

// unreadable is how long a resource may be in a state that may pass before
// waitForSnapshots gives it up.
const unreadable = 5 * time.Second

// waitForSnapshots waits until every target has its snapshot or is given up.
func (p *pipeline) waitForSnapshots(ctx context.Context) error {
	var missing []error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		pending := 0
		missing = nil
		for _, t := range p.manager.Targets() {
			switch {
			case t.Synced:
			case t.State == dynwatch.Forbidden,
				t.State != dynwatch.Syncing && t.State != dynwatch.Starting && time.Since(t.Since) > unreadable:
				missing = append(missing, fmt.Errorf("%s: %s: %s", t.Name, t.State, t.Reason))
			default:
				pending++
			}
		}
		return pending == 0, nil
	})
	if err != nil {
		return errors.New("interrupted before every snapshot was complete")
	}
	return errors.Join(missing...)
}
