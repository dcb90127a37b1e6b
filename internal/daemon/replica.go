package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/replica"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// ErrLeaseLost is the error of [Daemon.Run] when another informd may lead now. Everything has ended, and
// the caller makes the next Daemon, which follows that one.
var ErrLeaseLost = replica.ErrLost

// lead returns when this process leads, with replicas in the config; nil without.
func (d *Daemon) lead(ctx context.Context) (*replica.Leadership, error) {
	r := d.config.Replicas
	if !r.Wanted() {
		return nil, nil //nolint:nilnil // a single process
	}
	namespace, err := leaseNamespace(d.config)
	if err != nil {
		return nil, err
	}
	d.follower.Store(&admin.Follower{})
	l, err := replica.Acquire(ctx, replica.Options{
		Kubernetes: d.kubernetes, Lease: r.Lease, Namespace: namespace, Duration: r.Duration, Address: r.Address,
		Dir: d.config.Journal.Dir, Peers: d.peers, Server: &d.replica,
		Status: func(leader string, inSync bool) { d.follower.Store(&admin.Follower{Leader: leader, InSync: inSync}) },
		Logger: d.logger,
	})
	if err != nil {
		return nil, err
	}
	d.follower.Store(nil)
	d.leading.Store(l)
	return l, nil
}

// peers are the other replicas, which have the same certificate and token. The files are read each time, as
// they may be new.
func peers(c *config.Admin) replica.Peers {
	files, dialer := admin.TLS(c.TLS), &net.Dialer{Timeout: 5 * time.Second}
	transport := &http.Transport{
		DialContext:     dialer.DialContext, // through no proxy: the token is for informd alone
		IdleConnTimeout: time.Minute,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := files.ClientConfig()
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{NetDialer: dialer, Config: c}).DialContext(ctx, network, address)
		},
	}
	return replica.Peers{Transport: transport, Encrypted: c.TLS.CertFile != "", Token: func() (string, error) {
		if c.TokenFile == "" {
			return "", nil
		}
		return admin.ReadToken(c.TokenFile)
	}}
}

// forward returns what serves an operator's look at objects while this process follows a leader; nil if
// it leads, or if the leader would refuse its requests.
func (d *Daemon) forward() http.Handler {
	f := d.follower.Load()
	if f == nil || f.Leader == "" || f.Leader == d.config.Replicas.Address || d.config.Admin.TokenFile == "" {
		return nil
	}
	return d.peers.Forward(f.Leader, d.logger)
}

// namespaceFile has the namespace of the Pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// leaseNamespace is that of the config, else that of the Pod, else that of the kubeconfig.
func leaseNamespace(c *config.Config) (string, error) {
	if c.Replicas.Namespace != "" {
		return c.Replicas.Namespace, nil
	}
	kubeconfig, err := kubeconfigOf(c.Kubernetes)
	if err != nil {
		return "", err
	}
	if kubeconfig == nil {
		text, err := os.ReadFile(namespaceFile)
		if err != nil {
			return "", fmt.Errorf("find the namespace of the lease: %w; set replicas.namespace", err)
		}
		return strings.TrimSpace(string(text)), nil
	}
	namespace, _, err := kubeconfig.Namespace()
	if err != nil {
		return "", fmt.Errorf("find the namespace of the lease: %w; set replicas.namespace", err)
	}
	return namespace, nil
}

// logHandler serves the log, nil without replicas.
func (d *Daemon) logHandler() http.Handler {
	if !d.config.Replicas.Wanted() {
		return nil
	}
	return &d.replica
}

// release gives the lease up if it is held.
func release(l *replica.Leadership) error {
	if l == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	return l.Release(ctx)
}

// releaseTimeout bounds the release of the lease, which else expires.
const releaseTimeout = 3 * time.Second

// fenced is a sink that is written to only while this process surely leads.
type fenced struct {
	sink.Sink

	leading *replica.Leadership
}

// Write implements [sink.Sink]. It waits while the lease cannot be renewed.
func (f fenced) Write(ctx context.Context, batch []event.Event) (int, error) {
	return f.WriteAt(ctx, batch, sink.Positions{})
}

// WriteAt implements [sink.Positioned], also for a sink that does not.
func (f fenced) WriteAt(ctx context.Context, batch []event.Event, at sink.Positions) (int, error) {
	held, release, err := f.leading.Hold(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	n, err := sink.WriteAt(held, f.Sink, batch, at)
	if err != nil && ctx.Err() == nil && held.Err() != nil {
		err = errors.Join(context.Cause(held), err)
	}
	return n, err
}

// newReplicaCollector shows what this process is among the replicas.
func newReplicaCollector(d *Daemon) prometheus.Collector {
	return &replicaCollector{
		daemon: d,
		leader: prometheus.NewDesc("informd_replica_leader", "1 if this informd leads, 0 if it follows another one.", nil, nil),
		term:   prometheus.NewDesc("informd_replica_term", "Number of takeovers; absent on a follower.", nil, nil),
		inSync: prometheus.NewDesc("informd_replica_in_sync_followers", "Followers whose copy has everything that a sink has; absent on a follower.", nil, nil),
		lag:    prometheus.NewDesc("informd_replica_lag_bytes", "Bytes of the log that the follower lacks; absent on a follower.", []string{"follower"}, nil),
		copied: prometheus.NewDesc("informd_replica_in_sync", "1 if the copy of this follower is whole, else 0; absent on the leader.", nil, nil),
	}
}

type replicaCollector struct {
	daemon                            *Daemon
	leader, term, inSync, lag, copied *prometheus.Desc
}

func (c *replicaCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.leader, c.term, c.inSync, c.lag, c.copied} {
		out <- d
	}
}

func (c *replicaCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	l := c.daemon.leading.Load()
	gauge(c.leader, oneIf(l != nil && l.Check() == nil))
	if l == nil {
		f := c.daemon.follower.Load()
		gauge(c.copied, oneIf(f != nil && f.InSync))
		return
	}
	now := l.Following()
	gauge(c.term, float64(l.Term()))
	gauge(c.inSync, float64(len(now.InSync)))
	for name, bytes := range now.Lag {
		gauge(c.lag, float64(bytes), name)
	}
}
