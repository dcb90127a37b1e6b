package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
)

// errNoReload: there is no config file. errStopping: close was called.
var errNoReload, errStopping = errors.New("this informd cannot reload its config"), errors.New("informd is stopping; its next start reads the config")

// reloads is what is known of the attempts to make the running informd one of
// another config.
type reloads struct {
	load   func() (*config.Config, error)
	logger *slog.Logger

	running context.Context //nolint:containedctx // close ends it, and with it the attempt in progress
	end     context.CancelFunc
	turn    sync.Mutex // held by the attempt under way
	// current is the config in use; guarded by turn.
	current *config.Config

	mu        sync.Mutex
	attempted content   // what the file had at the last attempt
	at        time.Time // of the last attempt; the start counts as one
	succeeded time.Time // of the last one that worked
	err       error     // of the last attempt
	passing   bool      // it was not about the config, so that another attempt may work

	results *prometheus.CounterVec // attempts, by result
}

func newReloads(load func() (*config.Config, error), started *config.Config, logger *slog.Logger) *reloads {
	now := time.Now()
	running, end := context.WithCancel(context.Background())
	return &reloads{running: running, end: end, load: load, logger: logger, current: started, attempted: content{sum: started.Sum}, at: now, succeeded: now, results: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "informd_config_reloads_total", Help: "Reloads of the config, by result: success or failure.",
	}, []string{"result"})}
}

// Reload reads the config and applies the differences: it starts, replaces or stops
// targets and sinks, and the others continue. If the config has an error, nothing changes. It
// blocks until the change is made; calls wait for each other. While the journal is not open yet,
// as on a follower, the pipeline will be made of the new config.
func (d *Daemon) Reload(ctx context.Context) error {
	_, err := d.reload(ctx)
	return err
}

// reload is Reload with its outcome.
func (d *Daemon) reload(ctx context.Context) (admin.Reload, error) {
	r := d.reloads
	if r.load == nil {
		return admin.Reload{}, errNoReload
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.running, cancel)()
	r.turn.Lock()
	defer r.turn.Unlock()
	if r.running.Err() != nil {
		r.logger.Warn("config not reloaded; informd is stopping")
		return admin.Reload{}, errStopping
	}
	p := d.pipeline.Load()
	seen := lookAt(d.config.Path)
	next, err := r.load()
	repair := "correct the file"
	if err == nil {
		seen = content{sum: next.Sum} // the file may have been missing a moment before
		if err = d.config.Replaces(next); err != nil {
			repair = "restart informd"
		}
	}
	var done sinkChange
	if err == nil && p != nil {
		done, err = p.change(ctx, d, next)
		if errors.Is(err, errLeaving) {
			repair = "informd tries again; after a restart the file is used"
		} else if _, mistake := errors.AsType[config.Errors](err); !mistake { // as of a journal out of reach
			repair = "informd tries again"
		}
	}
	r.note(seen, err)
	if err != nil {
		r.logger.Error("config not reloaded; the previous config stays in use", "path", d.config.Path,
			"runbook", display.AlertRunbook("InformdReloadFailed"))
		logMistakes(r.logger, repair, err)
		return admin.Reload{}, err
	}
	setLevel(d.level, next.Log)
	logWarnings(r.logger, next)
	r.current = next
	outcome := admin.Reload{
		Path: d.config.Path, SinksAdded: names(done.added), SinksRemoved: slices.Sorted(maps.Keys(done.removed)),
		SinksChanged: names(done.replaced),
	}
	for _, w := range next.Warnings {
		outcome.Warnings = append(outcome.Warnings, w.Error())
	}
	if outcome.Pending = p == nil; outcome.Pending {
		r.logger.Info("config reloaded; used when the journal opens", "path", outcome.Path)
		return outcome, nil
	}
	outcome.Targets = len(p.manager.Targets())
	r.logger.Info("config reloaded", "path", outcome.Path, "sinks_added", outcome.SinksAdded,
		"sinks_removed", outcome.SinksRemoved, "sinks_changed", outcome.SinksChanged, "targets", outcome.Targets)
	return outcome, nil
}

// Config is the config in use: that of the start, or of the last reload that was accepted.
func (d *Daemon) Config() *config.Config {
	d.reloads.turn.Lock()
	defer d.reloads.turn.Unlock()
	return d.reloads.current
}

// between runs do with the config in use, while no attempt is under way.
func (r *reloads) between(do func(*config.Config) error) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	return do(r.current)
}

// close cancels the attempt in progress, waits for its end, and allows no other one. A reload must
// not use the grace period of Kubernetes, which the sinks need.
func (r *reloads) close() {
	r.end()
	r.turn.Lock()
	defer r.turn.Unlock()
}

// logMistakes writes a line for each, with what to do.
func logMistakes(logger *slog.Logger, repair string, err error) {
	var mistakes config.Errors
	if !errors.As(err, &mistakes) {
		logger.Error("config refused", "err", err, "next", repair)
		return
	}
	for _, m := range mistakes {
		logger.Error("config refused", "err", m, "next", repair)
	}
}

// logWarnings writes a line for each.
func logWarnings(logger *slog.Logger, c *config.Config) {
	for _, w := range c.Warnings {
		logger.Warn("config probably not as intended; check it", "reason", w)
	}
}

func (r *reloads) note(seen content, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempted, r.at, r.err = seen, time.Now(), err
	r.passing = err != nil && !errors.As(err, new(config.Errors))
	result := "failure"
	if err == nil {
		r.succeeded, result = r.at, "success"
	}
	r.results.WithLabelValues(result).Inc()
}

// status describes the last attempt.
func (r *reloads) status(path string) *admin.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &admin.Config{Path: path, LastReload: r.at, LastSuccess: r.succeeded, Successful: r.err == nil}
	if r.err != nil {
		s.Error = display.Reason(r.err.Error())
	}
	return s
}

func (r *reloads) register(registerer prometheus.Registerer) error {
	gauge := func(name, help string, value func() float64) error {
		return registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "informd_config_" + name, Help: help}, func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return value()
		}))
	}
	for _, result := range []string{"success", "failure"} {
		r.results.WithLabelValues(result) // both series exist from the start
	}
	return errors.Join(
		registerer.Register(r.results),
		gauge("last_reload_successful", "1 if the last reload worked, 0 if informd refused the config and uses the previous one.", func() float64 {
			return oneIf(r.err == nil)
		}),
		gauge("last_reload_success_timestamp_seconds", "Unix time in seconds at which informd read the config in use.", func() float64 {
			return float64(r.succeeded.UnixMilli()) / 1000
		}))
}

// changeTimeout bounds the wait for sinks that hang in a write. They change when it
// ends.
const changeTimeout = 10 * time.Second

// sinkChange is the way from the running sinks to those of another config.
type sinkChange struct {
	all, added, replaced []*delivery
	removed              map[string]*delivery
	moved                []string // replaced ones with another destination that has no identity
}

// names returns the names of sinks.
func names(all []*delivery) (names []string) {
	for _, one := range all {
		names = append(names, one.config.Name)
	}
	return names
}

// change makes the pipeline one of next: everything that can fail first. It is called by one goroutine at a
// time.
func (p *pipeline) change(ctx context.Context, d *Daemon, next *config.Config) (sinkChange, error) {
	sinks, err := p.prepare(d, next)
	if err == nil {
		err = p.store.Watch(wanted(next))
	}
	if err != nil {
		for _, one := range sinks.added {
			err = errors.Join(err, one.discard())
		}
		return sinkChange{}, err
	}
	// Apply refuses what is wrong with a set of resources, and the config was checked for that.
	p.apply(ctx, sinks)
	if len(sinks.moved) > 0 {
		p.logger.Warn("sink destinations changed; they get no earlier events", "sinks", sinks.moved,
			"next", "the sinks continue at their old positions; for a complete copy run informd resnapshot <resource> --sink <name>")
	}
	p.manager.SetMaxWatches(next.Kubernetes.MaxWatches)
	return sinks, p.manager.Apply(wanted(next))
}

// errLeaving is the error of a sink that returns too early.
var errLeaving = errors.New("it was removed, and its last write has not ended yet")

// returning is the error of a sink of next that was removed and has not ended: it still has its cursor. It comes before
// the cursors of other new sinks are opened: the journal would keep terminal events for them.
func (p *pipeline) returning(next *config.Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, was := range p.leaving {
		again := func(s config.Sink) bool { return s.Name == was.config.Name }
		if was.Status().State != deliver.Stopped && slices.ContainsFunc(next.Sinks, again) {
			return fmt.Errorf("sink %q: %w", was.config.Name, errLeaving)
		}
	}
	return nil
}

// prepare makes the new sinks, and the setups of those that change. After an error the
// caller discards the added ones.
func (p *pipeline) prepare(d *Daemon, next *config.Config) (sinkChange, error) {
	if err := p.returning(next); err != nil {
		return sinkChange{}, err
	}
	c := sinkChange{removed: make(map[string]*delivery)}
	for _, was := range p.deliveries() {
		c.removed[was.config.Name] = was
	}
	for _, s := range next.Sinks {
		was := c.removed[s.Name]
		delete(c.removed, s.Name)
		if was != nil && was.config.Same(s) {
			c.all = append(c.all, was)
			continue
		}
		setup := p.setup(d, s)
		if was != nil {
			one := &delivery{config: s, setup: setup, Runner: was.Runner}
			c.all, c.replaced = append(c.all, one), append(c.replaced, one)
			if moves(was.config, s) {
				c.moved = append(c.moved, s.Name)
			}
			continue
		}
		one, err := p.newDelivery(d, s, setup)
		if err != nil {
			return c, err
		}
		c.all, c.added = append(c.all, one), append(c.added, one)
	}
	return c, nil
}

// apply ends the removed sinks before it runs the added ones: two may not have the same
// file. It waits for sinks that hang in a write for changeTimeout at most.
func (p *pipeline) apply(ctx context.Context, c sinkChange) {
	limited, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	var changing sync.WaitGroup
	for _, was := range c.removed {
		p.leave(was)
		changing.Go(func() { p.logDelayed(was, was.Stop(limited)) })
	}
	for _, one := range c.replaced {
		changing.Go(func() { p.logDelayed(one, one.Replace(limited, one.setup)) })
	}
	changing.Wait()
	p.keep(c.all)
	for _, one := range c.added {
		p.run(one)
	}
}

// logDelayed logs a sink that has not changed yet. It changes when the write that hangs ends.
func (p *pipeline) logDelayed(one *delivery, err error) {
	if err != nil {
		p.logger.Warn("sink change delayed; waiting for its write", "sink", one.config.Name, "err", fmt.Errorf("wait for its write to end: %w", err))
	}
}
