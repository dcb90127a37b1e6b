// Package daemon wires informd together: it makes the journal, the sinks'
// runners, the manager of the watches and the admin server from a config, starts
// them from the sinks backwards and stops them from the watches onwards, so that
// at any moment whatever can produce an event has somewhere to put it.
//
// It has no logic for events. The command line calls it.
package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/replica"
	"github.com/informd/informd/internal/tail"
)

// grace is how long the sinks have at the end to take what the journal holds.
// With the 10 seconds that a hanging sink is waited for, it stays below the 30
// that Kubernetes gives a Pod by default.
const grace = 15 * time.Second

// Options are what a Daemon is made of.
type Options struct {
	Config *config.Config
	// Load reads the config again, for a reload; nil if there is to be none.
	Load    func() (*config.Config, error)
	Version string
	// Stdout is for the stdout sink, Stderr for the log.
	Stdout, Stderr io.Writer
}

// Daemon is one informd. It is run once.
type Daemon struct {
	// config is that of the start, for the settings that no reload changes. [Daemon.Config] is the one in use.
	config     *config.Config
	kubernetes *rest.Config
	// kubeconfig is [kubeconfigSum] when it was read. It is looked at again in each interval.
	kubeconfig         [sha256.Size]byte
	kubeconfigInterval time.Duration
	logger             *slog.Logger
	level              *slog.LevelVar
	reloads            *reloads
	stdout             io.Writer
	registry           *prometheus.Registry
	admin              *admin.Server
	// pipeline is nil while the journal is being opened.
	pipeline atomic.Pointer[pipeline]
	tails    tail.Feed
	// replica serves the log to followers. Leading is nil while this process does not lead, and follower
	// while it leads, or has no replicas.
	replica  replica.Server
	peers    replica.Peers
	leading  atomic.Pointer[replica.Leadership]
	follower atomic.Pointer[admin.Follower]
}

// New checks what can be checked without contact to anything.
func New(o Options) (*Daemon, error) {
	d := &Daemon{config: o.Config, level: new(slog.LevelVar), stdout: o.Stdout, registry: prometheus.NewRegistry(), peers: peers(&o.Config.Admin)}
	d.logger = newLogger(o.Stderr, o.Config.Log, d.level)
	d.reloads = newReloads(o.Load, o.Config, d.logger)
	err := d.reloads.register(d.registry)
	if err != nil {
		return nil, err
	}
	d.kubeconfig, d.kubeconfigInterval = kubeconfigSum(o.Config.Kubernetes), kubeconfigInterval
	if d.kubernetes, err = kubernetesConfig(o.Config.Kubernetes); err != nil {
		return nil, err
	}
	if o.Config.Redaction.KeyFile != "" {
		if _, err := redactionKey(o.Config); err != nil {
			return nil, err
		}
	}
	d.admin = admin.New(d.adminOptions(o.Version, d.registry))
	own := append(d.admin.Collectors(), buildInfo(o.Version), newUsableCollector(d.journalUsable), newLetterCollector(d.sinkNames, d.deadLetters))
	if o.Config.Replicas.Wanted() {
		own = append(own, newReplicaCollector(d))
	}
	for _, c := range own {
		if err := d.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Run watches and delivers until ctx ends, then drains: nothing is watched any
// more, and the sinks have the grace period to take what the journal holds. The
// end of now cuts that short. Undelivered events in a memory journal are an
// error. With [ErrLeaseLost] and [ErrKubeconfigChanged] the next Daemon continues.
func (d *Daemon) Run(ctx, now context.Context) error {
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	watching, unwatch := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { d.followKubeconfig(watching, end) })
	if d.reloads.load != nil { // also while another informd leads
		watcher.Go(func() { d.watchConfig(watching) })
	}
	defer watcher.Wait()
	defer unwatch()
	p, err := d.start(running, now)
	if err != nil && running.Err() != nil && context.Cause(now) == nil {
		d.logger.Info("stopped before the journal opened", "err", err)
		return changedWhile(ctx, running)
	}
	if err != nil {
		return err
	}
	select {
	case <-running.Done():
	case <-p.store.Failed():
		return d.fail(now, p)
	}
	d.logger.Info("stopping; delivering the backlog (a second signal stops at once)", "grace", grace)
	p.warnOfWaiting()
	err = d.stop(now, p)
	d.logger.Info("stopped")
	if again := changedWhile(ctx, running); again != nil && !errors.Is(err, errHangs) && context.Cause(now) == nil {
		if err != nil {
			d.logger.Error("not stopped cleanly; starting again", "err", err)
		}
		return again
	}
	return err
}

// changedWhile is [ErrKubeconfigChanged] if that ended the run, and nil if ctx did.
func changedWhile(ctx, running context.Context) error {
	if err := context.Cause(running); ctx.Err() == nil && errors.Is(err, ErrKubeconfigChanged) {
		return err
	}
	return nil
}

// fail stops after a failure of the journal, or when the lease is lost.
func (d *Daemon) fail(now context.Context, p *pipeline) error {
	err, lost := p.store.Failure(), errors.Is(p.store.Failure(), ErrLeaseLost)
	if lost {
		d.logger.Warn("delivery ends; following the next leader", "err", err)
	} else {
		d.logger.Error("journal failed; informd exits and resumes at the next start", "err", err,
			"runbook", display.AlertRunbook("InformdJournalUnusable"))
	}
	over, cancel := context.WithCancelCause(now)
	cancel(err)
	stopped := d.stop(over, p)
	if lost && !errors.Is(stopped, errHangs) && context.Cause(now) == nil {
		return ErrLeaseLost
	}
	return stopped
}

// RunOnce delivers the snapshot of every resource and ends. A resource that
// cannot be read is an error, after the others were delivered.
func (d *Daemon) RunOnce(ctx, now context.Context) error {
	p, err := d.start(ctx, now)
	if err != nil {
		return err
	}
	missing := p.waitForSnapshots(ctx)
	return errors.Join(missing, d.stop(now, p))
}

// start begins with the end of the pipe. While another informd leads, it waits, and the admin server says so.
func (d *Daemon) start(ctx, now context.Context) (*pipeline, error) {
	d.logger.Info("starting", "server", display.Address(d.kubernetes.Host), "cluster", d.config.Cluster)
	logWarnings(d.logger, d.config)
	if err := d.admin.Start(); err != nil {
		return nil, err
	}
	p, err := d.open(ctx, now)
	if err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(now), time.Second)
		defer cancel()
		return nil, errors.Join(err, d.admin.Shutdown(closing))
	}
	return p, nil
}

// open opens the journal, which can take days on a follower. It then makes the pipeline from the
// config in use at that moment, because the config may have changed meanwhile, and starts it.
func (d *Daemon) open(ctx, now context.Context) (p *pipeline, err error) {
	leading, err := d.lead(ctx)
	if err != nil {
		return nil, err
	}
	store, err := openJournal(ctx, d.config, wanted(d.config), d.logger)
	if err != nil {
		return nil, errors.Join(err, release(leading))
	}
	if leading != nil {
		if err := store.Lead(ctx, leading); err != nil {
			return nil, errors.Join(err, release(leading), store.Close())
		}
	}
	store.Cluster = func(ctx context.Context) (string, error) { return clusterUID(ctx, d.kubernetes, d.logger) }
	d.reloadIfChanged(ctx) // this process may have been frozen until now
	err = d.reloads.between(func(c *config.Config) error {
		err := store.Watch(wanted(c))
		if err == nil {
			p, err = newPipeline(now, d, c, store)
		}
		if err != nil {
			return errors.Join(err, store.Close())
		}
		d.pipeline.Store(p)
		return p.start(c)
	})
	return p, err
}

// stop ends the beginning of the pipe first. When now ends, it does not wait for
// anything any more.
func (d *Daemon) stop(now context.Context, p *pipeline) error {
	stopped := make(chan error, 1)
	go func() {
		d.reloads.close()
		err := errors.Join(p.drain(now), context.Cause(now)) // a later signal cuts nothing short
		closing, cancel := context.WithTimeout(context.WithoutCancel(now), time.Second)
		defer cancel()
		stopped <- errors.Join(err, d.admin.Shutdown(closing))
	}()
	select {
	case err := <-stopped:
		return err
	case <-now.Done():
	}
	// What heeds its context ends by itself and says what it left.
	select {
	case err := <-stopped:
		return err
	case <-time.After(endTimeout):
		return errors.Join(context.Cause(now), errHangs)
	}
}

// errHangs says that not everything has ended.
var errHangs = errors.New("a sink or the disk does not answer")

// endTimeout is how long everything has to end when nothing is waited for.
const endTimeout = 3 * time.Second
