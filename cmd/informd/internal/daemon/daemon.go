// Package daemon wires informd together: it makes the journal, the sinks'
// runners, the manager of the watches and the admin server from a config, starts
// them from the sinks backwards and stops them from the watches onwards, so that
// at any moment whatever can produce an event has somewhere to put it.
//
// It holds no logic of its own about events. The command line calls it.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/cmd/informd/internal/admin"
	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/cmd/informd/internal/deliver"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/sink"
)

// grace is how long the sinks have at the end to take what the journal holds.
// With the 10 seconds that a hanging sink is waited for, it stays below the 30
// that Kubernetes gives a Pod by default.
const grace = 15 * time.Second

// Options are what a Daemon is made of.
type Options struct {
	Config  *config.Config
	Version string
	// Stdout is for the stdout sink, Stderr for the log.
	Stdout, Stderr io.Writer
}

// Daemon is one informd. It is run once.
type Daemon struct {
	config  *config.Config
	server  string // the API server's address
	logger  *slog.Logger
	journal journal.Journal
	runners []*deliver.Runner
	manager *dynwatch.Manager
	admin   *admin.Server
	// delivering waits for the runners.
	delivering sync.WaitGroup
}

// New prepares everything and contacts nothing. After an error nothing is left
// open.
func New(o Options) (*Daemon, error) {
	d := &Daemon{config: o.Config, logger: newLogger(o.Stderr, o.Config.Log)}
	kubernetes, err := kubernetesConfig(o.Config.Kubernetes)
	if err != nil {
		return nil, err
	}
	d.server = kubernetes.Host
	key, err := redactionKey(o.Config.Redaction)
	if err != nil {
		return nil, err
	}
	d.journal = journal.NewMemory(uint64(o.Config.Journal.MaxBytes))
	source := deliver.NewDeadLetters(o.Config.Journal.Dir, config.SourceName)
	d.manager, err = dynwatch.New(dynwatch.Options{
		Cluster: o.Config.Cluster, Kubernetes: kubernetes, Log: d.journal, Reject: rejectTo(source, d.logger),
		RedactionKey: key, Logger: d.logger,
	})
	if err != nil {
		return nil, errors.Join(err, d.journal.Close())
	}
	registry := prometheus.NewRegistry()
	if err := d.makeRunners(o, registry); err != nil {
		return nil, errors.Join(err, d.abandon())
	}
	if err := registerMetrics(registry, d.manager, d.journal); err != nil {
		return nil, errors.Join(err, d.abandon())
	}
	d.admin = admin.New(d.adminOptions(o.Version, registry))
	return d, nil
}

func (d *Daemon) makeRunners(o Options, registry *prometheus.Registry) error {
	for _, s := range o.Config.Sinks {
		route, err := deliver.NewRoute(matches(s.Only), s.Start == config.StartSnapshot)
		if err != nil {
			return fmt.Errorf("sink %s: %w", s.Name, err)
		}
		env := sink.Env{Name: s.Name, Cluster: o.Config.Cluster, Logger: d.logger.With("sink", s.Name), Stdout: o.Stdout}
		r, err := deliver.New(d.journal, deliver.Options{
			Name: s.Name, Type: s.Type, Lanes: s.Driver.Lanes, Route: route, Start: start(s.Start),
			Open:        func(ctx context.Context) (sink.Sink, error) { return s.Options.Open(ctx, env) },
			DeadLetters: deliver.NewDeadLetters(o.Config.Journal.Dir, s.Name),
			Logger:      env.Logger, Registerer: registry,
		})
		if err != nil {
			return err
		}
		d.runners = append(d.runners, r)
	}
	return nil
}

// abandon gives back what New took, when nothing was started.
func (d *Daemon) abandon() error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, r := range d.runners {
		if err := r.Run(ended); err != nil {
			d.logger.Warn("sink could not be given back", "err", err)
		}
	}
	d.manager.Close()
	return d.journal.Close()
}

// Run watches and delivers until ctx ends, then drains: nothing is watched any
// more, and the sinks have the grace period to take what the journal holds. The
// end of now cuts that short. What was left undelivered is an error.
func (d *Daemon) Run(ctx, now context.Context) error {
	if err := d.start(now); err != nil {
		return err
	}
	<-ctx.Done()
	d.logger.Info("stopping: delivering what the journal holds; a second signal ends at once", "grace", grace)
	for _, s := range d.sinks() {
		if s.LagEvents > 0 && s.LastError != "" {
			d.logger.Warn("waiting for a sink", "sink", s.Name, "events", s.LagEvents, "last_err", s.LastError)
		}
	}
	err := d.stop(now)
	d.logger.Info("stopped")
	return err
}

// RunOnce delivers the snapshot of every resource and ends. A resource that
// cannot be read is an error, after the others were delivered.
func (d *Daemon) RunOnce(ctx, now context.Context) error {
	if err := d.start(now); err != nil {
		return err
	}
	missing := d.waitForSnapshots(ctx)
	return errors.Join(missing, d.stop(now))
}

// start begins with the end of the pipe.
func (d *Daemon) start(now context.Context) error {
	d.logger.Info("watching", "server", d.server, "cluster", d.config.Cluster)
	d.logger.Info("the journal is in memory: a restart begins with a new snapshot", "max_bytes", d.config.Journal.MaxBytes)
	d.checkDeadLetters()
	if err := d.admin.Start(); err != nil {
		return errors.Join(err, d.abandon())
	}
	for _, r := range d.runners {
		d.delivering.Go(func() {
			if err := r.Run(now); err != nil {
				d.logger.Error("sink ended", "err", err)
			}
		})
	}
	if err := d.manager.Apply(wanted(d.config.Resources)); err != nil {
		return errors.Join(err, d.stop(now))
	}
	return nil
}

// checkDeadLetters warns early of what would show only when it hurts: a sink
// whose dead letter cannot be written waits until it can be.
func (d *Daemon) checkDeadLetters() {
	dir := d.config.Journal.Dir
	existing := dir
	for {
		if _, err := os.Stat(existing); err == nil || existing == filepath.Dir(existing) {
			break
		}
		existing = filepath.Dir(existing)
	}
	const writable = 2 // W_OK, see access(2)
	if err := syscall.Access(existing, writable); err != nil {
		d.logger.Warn("dead letters cannot be written: an event that a sink refuses for good will hold that sink; set journal.dir",
			"dir", dir, "err", err)
	}
}

// stop ends the beginning of the pipe first. When now ends, it does not wait for
// anything any more.
func (d *Daemon) stop(now context.Context) error {
	stopped := make(chan error, 1)
	go func() { stopped <- d.drain(now) }()
	select {
	case err := <-stopped:
		return err
	case <-now.Done():
	}
	// What heeds its context ends by itself and says what it left.
	select {
	case err := <-stopped:
		return err
	case <-time.After(time.Second):
		return context.Cause(now)
	}
}

func (d *Daemon) drain(now context.Context) error {
	d.manager.Close()
	draining, cancel := context.WithTimeout(now, grace)
	defer cancel()
	errs := make([]error, len(d.runners))
	hung := make([]error, len(d.runners)) // runners that will never return
	var drains sync.WaitGroup
	for i, r := range d.runners {
		drains.Go(func() {
			left, err := r.Drain(draining)
			hung[i], errs[i] = err, err
			if left > 0 {
				s := r.Status()
				errs[i] = errors.Join(err, fmt.Errorf("sink %s: %d events were not delivered (last error: %s)", s.Name, left, cmp.Or(s.LastError, "none")))
			}
		})
	}
	drains.Wait()
	if errors.Join(hung...) == nil {
		d.delivering.Wait()
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(now), time.Second)
	defer cancel()
	errs = append(errs, d.admin.Shutdown(closing), d.journal.Close(), context.Cause(now))
	return errors.Join(errs...)
}

// unreadable is how long a resource may be in a state that may pass before RunOnce
// gives it up.
const unreadable = 5 * time.Second

// waitForSnapshots waits until every target has its snapshot or is given up.
func (d *Daemon) waitForSnapshots(ctx context.Context) error {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		pending, missing := 0, []error(nil)
		for _, t := range d.manager.Targets() {
			switch {
			case t.Synced:
			case t.State == dynwatch.Forbidden,
				t.State != dynwatch.Syncing && t.State != dynwatch.Starting && time.Since(t.Since) > unreadable:
				missing = append(missing, fmt.Errorf("%s: %s: %s", t.Name, t.State, t.Reason))
			default:
				pending++
			}
		}
		if pending == 0 {
			return errors.Join(missing...)
		}
		select {
		case <-ctx.Done():
			return errors.New("interrupted before every snapshot was complete")
		case <-poll.C:
		}
	}
}
