package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/journal"
)

// defaultPatience is that of [Options].
const defaultPatience = 30 * time.Second

// Options are the settings of a replica. All but Server and Status are required.
type Options struct {
	Kubernetes *rest.Config
	// Lease and Namespace name the Lease.
	Lease, Namespace string
	// Duration is how long the lease outlives its holder: whole seconds.
	Duration time.Duration
	// Patience is how much longer this process waits for the lease if its copy may lack what sinks have:
	// another one may have a better copy, and take the lease meanwhile. Default: 30 s.
	Patience time.Duration
	// Address is host:port of this process's admin server, as the other replicas reach it. It is also the
	// name of the replica: no two have the same.
	Address string
	// Dir is journal.dir.
	Dir string
	// Peers are the other replicas.
	Peers Peers
	// Server serves the log of this process while it leads.
	Server *Server
	// Status is called with the leader that this process follows, "" while there is none, and whether its copy
	// is whole and that leader counts on it.
	Status func(leader string, inSync bool)
	Logger *slog.Logger
}

// candidate is a process that does not lead.
type candidate struct {
	options Options
	client  *client
	mirror  *journal.Mirror

	// Of run. Seen is the newest record, and since when it has not changed. Back is when the API server began to
	// answer again, and looked when it has answered last.
	seen                record
	since, back, looked time.Time
	// broken gets a signal when the connection to the leader breaks.
	broken    chan struct{}
	following *following
	reported  bool
}

// following is the copying of one leader's log.
type following struct {
	leader *remote
	whole  atomic.Bool // the copy is
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// Acquire follows the leader of the moment until this process leads, or ctx ends. It holds the directory meanwhile, and
// has given it up when it returns: the caller opens the journal there, and calls Begin.
func Acquire(ctx context.Context, o Options) (_ *Leadership, err error) {
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	own := rest.CopyConfig(o.Kubernetes)
	own.QPS = -1 // a renewal must not wait for others
	api, err := dynamic.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make client for the lease: %w", err)
	}
	mirror, err := journal.OpenMirror(o.Dir, o.Logger)
	if err != nil {
		return nil, err
	}
	c := &candidate{
		options: o, mirror: mirror, broken: make(chan struct{}, 1),
		client: &client{api: api.Resource(leases()).Namespace(o.Namespace), name: o.Lease, me: o.Address, duration: o.Duration},
	}
	l, err := c.run(ctx)
	c.unfollow()
	if err = errors.Join(err, mirror.Close()); err != nil && l != nil {
		l.stop()
		l.keeping.Wait()
		return nil, err
	}
	return l, err
}

func (c *candidate) run(ctx context.Context) (*Leadership, error) {
	for {
		wait := c.options.Duration / 4
		next, l, err := c.look(ctx)
		switch {
		case l != nil:
			return l, nil
		case err != nil && ctx.Err() == nil:
			c.report(err)
		case err == nil:
			c.reported = false
			wait = min(wait, max(next, time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		case <-c.broken: // the leader may have released the lease; copy pauses between two attempts
		}
	}
}

// report tells of the first failure. The next ones may name another port each.
func (c *candidate) report(err error) {
	if !c.reported {
		c.reported = true
		c.options.Logger.Warn("lease not read; retrying", "lease", c.options.Lease, "namespace", c.options.Namespace, "err", err)
	}
}

// look reads the Lease, and takes it if it is free. Next is when it may be free.
func (c *candidate) look(ctx context.Context) (next time.Duration, _ *Leadership, _ error) {
	limited, cancel := context.WithTimeout(ctx, c.options.Duration/4)
	defer cancel()
	now, err := c.client.get(limited)
	if err != nil {
		return 0, nil, err
	}
	if now.version == "" && c.seen.holder != "" {
		now = c.seen // it was deleted, and the holder makes it again
		now.version = ""
	}
	c.observe(now)
	fit, err := c.fit(&now)
	if err != nil {
		return 0, nil, err
	}
	if now.holder != "" {
		next = now.duration
	}
	if !fit {
		next += c.options.Patience
	}
	if next -= min(time.Since(c.since), time.Since(c.back)); next > 0 { // the clock that nobody sets
		c.follow(ctx, &now)
		c.status(&now)
		return next, nil, nil
	}
	return c.take(ctx, now, fit)
}

// observe notes since when the record has not changed, though the holder could have renewed the lease.
func (c *candidate) observe(now record) {
	if c.seen.renewed != now.renewed || c.seen.holder != now.holder || c.since.IsZero() {
		c.since = time.Now()
	}
	if c.looked.IsZero() || time.Since(c.looked) > max(now.duration, c.options.Duration) {
		c.back = time.Now()
	}
	c.seen, c.looked = now, time.Now()
}

// fit reports whether the log here has whatever a sink has of new objects.
func (c *candidate) fit(now *record) (bool, error) {
	if now.log == "" {
		return true, nil // no leader has ever begun
	}
	mine, err := c.mirror.Log()
	if err != nil || mine != now.log {
		return false, err
	}
	// Between a takeover and its note in the Lease the log is an own one, and the Lease counts on it as a copy.
	return c.mirror.Own() && now.leader == c.client.me || (c.mirror.Own() || c.mirror.Whole()) && now.counts(c.client.me), nil
}

// take takes the lease. If another process was faster, that one is followed.
func (c *candidate) take(ctx context.Context, now record, fit bool) (time.Duration, *Leadership, error) {
	c.unfollow()
	if still, err := c.fit(&now); err != nil || still != fit {
		return 0, nil, err
	}
	if !fit {
		c.options.Logger.Error("no replica has all of the log; taking over with what is here: all targets take their first list again, and sinks get a gap",
			"lease", c.options.Lease, "leader", now.leader, "runbook", display.GapRunbook("journal"))
		if err := c.mirror.Distrust(); err != nil {
			return 0, nil, err
		}
	}
	now.holder, now.term = c.client.me, now.term+1
	from := time.Now()
	limited, cancel := context.WithTimeout(ctx, c.options.Duration/4)
	defer cancel()
	taken, err := c.client.put(limited, now)
	if errors.Is(err, errConflict) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	c.options.Logger.Info("lease acquired", "lease", c.options.Lease, "namespace", c.options.Namespace, "term", taken.term)
	c.options.Status(c.client.me, true)
	return 0, newLeadership(c.client, c.options.Server, c.options.Logger, taken, from), nil
}

// follow copies the log of the holder, once that has opened it.
func (c *candidate) follow(ctx context.Context, now *record) {
	if f := c.following; f != nil && f.leader.address == now.holder && f.leader.term == now.term && f.leader.log == now.log {
		return
	}
	c.unfollow()
	if now.holder == "" || now.holder == c.client.me || now.leader != now.holder {
		return
	}
	f := &following{leader: &remote{
		client: &http.Client{Transport: c.options.Peers.Transport, Timeout: c.options.Duration},
		peers:  c.options.Peers, address: now.holder, me: c.client.me, term: now.term, log: now.log,
	}}
	ctx, f.stop = context.WithCancel(ctx)
	c.following = f
	c.options.Logger.Info("following", "leader", now.holder, "term", now.term)
	f.done.Go(func() { c.copy(ctx, f) })
}

// copy follows a leader until ctx ends.
func (c *candidate) copy(ctx context.Context, f *following) {
	pause, reported := time.Duration(0), false
	for ctx.Err() == nil {
		began := time.Now()
		err := c.mirror.Follow(ctx, f.leader, f.leader.term, func() {
			if reported {
				c.options.Logger.Info("following again", "leader", f.leader.address)
			}
			reported = false
			f.whole.Store(true)
		})
		if ctx.Err() != nil {
			return
		}
		f.whole.Store(false)
		if !reported {
			reported = true
			c.options.Logger.Warn("log not copied; retrying", "leader", f.leader.address, "err", err,
				"runbook", display.AlertRunbook("InformdNoFollowerInSync"))
		}
		select {
		case c.broken <- struct{}{}:
		default:
		}
		if pause = min(2*pause+50*time.Millisecond, c.options.Duration/4); time.Since(began) > c.options.Duration {
			pause = 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// status says whom this process follows. It is in sync if the leader counts on its copy, too.
func (c *candidate) status(now *record) {
	if f := c.following; f != nil {
		c.options.Status(f.leader.address, f.whole.Load() && now.counts(c.client.me))
	} else {
		c.options.Status("", false)
	}
}

func (c *candidate) unfollow() {
	if c.following != nil {
		c.following.stop()
		c.following.done.Wait()
		c.following = nil
	}
}
