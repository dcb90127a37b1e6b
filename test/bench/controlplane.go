package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/natsserver"
)

const (
	commitRate    = 300 // updates/s
	commitWriters = 8
)

// controlPlane times updates on a real API server with etcd: from etcd's commit, as
// etcd's own watch shows it to this process, to a subscriber of JetStream in this
// process. Both ends are read off one clock.
func (b *bench) controlPlane(ctx context.Context) (err error) {
	c, err := cluster.New(ctx, cluster.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	bus, err := natsserver.New(ctx, natsserver.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bus.Close()) }()
	config := c.RESTConfig()
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	names, err := createPods(ctx, client, max(50, b.size(1000)))
	if err != nil {
		return err
	}
	updates := max(2*commitRate, b.size(6_000)+commitRate)
	r := &commitRig{b: b, cluster: c, client: client, bus: bus.URL(), names: names, updates: updates}
	b.commits, b.writes = make(map[kind][][2]float64), make(map[kind][][2]float64)
	return errors.Join(r.with(ctx, informd, b.times(3)), r.with(ctx, informdAtOnce, b.times(3)), r.with(ctx, baseline, 1))
}

// commitRig is what the runs on the control plane share.
type commitRig struct {
	b       *bench
	cluster *cluster.Cluster
	client  dynamic.Interface
	bus     string
	names   []string
	updates int
}

// with runs a client, and updates while it runs.
func (r *commitRig) with(ctx context.Context, k kind, rounds int) (err error) {
	c, err := r.b.startClient(k, setup{kubeconfig: r.cluster.Kubeconfig(), resources: "  - {resource: pods}", sink: sinkSpec{jetStream, r.bus}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	beginning, err := c.border(0)
	if err != nil {
		return err
	}
	beginning.cpu = 0
	sync, h, err := c.settle(ctx, beginning, int64(len(r.names)), 0, len(r.names))
	if err != nil {
		return err
	}
	for round := range rounds {
		one := run{Case: onControlPlane, Client: k, Round: round, Objects: len(r.names), Sync: sync}
		from, err := c.border(h.mallocs)
		if err != nil {
			return err
		}
		trips := &commitRun{ends: make(map[uint64]*trip)}
		if err := trips.measure(ctx, r, k != baseline); err != nil {
			return err
		}
		if one.Stream, h, err = c.settle(ctx, from, int64(len(r.names)), h.updates+int64(r.updates), r.updates); err != nil {
			return err
		}
		one.DeliveredObjects, one.DeliveredUpdates = h.objects, int64(r.updates)
		if one.RSS, err = c.memory("VmRSS"); err != nil {
			return err
		}
		if one.Peak, err = c.memory("VmHWM"); err != nil {
			return err
		}
		r.b.runs = append(r.b.runs, one)
		r.b.say("real control plane at %d updates/s: %s: %.0f us of CPU per update, RSS %.1f MiB", commitRate, k, one.Stream.PerEvent(), one.RSS)
		if k == baseline {
			continue
		}
		commits, writes := trips.latencies(commitRate)
		r.b.commits[k], r.b.writes[k] = append(r.b.commits[k], percentiles(commits)), append(r.b.writes[k], percentiles(writes))
		r.b.say("from the commit p50 %.2f ms, p99 %.2f ms; from the request p50 %.2f, p99 %.2f; %d updates",
			percentiles(commits)[0], percentiles(commits)[1], percentiles(writes)[0], percentiles(writes)[1], len(commits))
	}
	return nil
}

func percentiles(values []float64) [2]float64 {
	slices.Sort(values)
	return [2]float64{quantile(values, 0.5), quantile(values, 0.99)}
}

// trip is what is known of one revision.
type trip struct {
	asked, committed, received int64 // by clock
}

// commitRun collects the trips of one run.
type commitRun struct {
	mu   sync.Mutex
	ends map[uint64]*trip
}

// note sets what is known of a revision.
func (r *commitRun) note(revision uint64, set func(*trip)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends[revision] == nil {
		r.ends[revision] = &trip{}
	}
	set(r.ends[revision])
}

// arrived is how many revisions are known at both ends.
func (r *commitRun) arrived() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.ends {
		if t.asked != 0 && t.committed != 0 && t.received != 0 {
			n++
		}
	}
	return n
}

// latencies are from the commit and from the request, in milliseconds, without the
// oldest so many.
func (r *commitRun) latencies(warmup int) (commits, writes []float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var revisions []uint64
	for revision, t := range r.ends {
		if t.asked != 0 && t.committed != 0 && t.received != 0 {
			revisions = append(revisions, revision)
		}
	}
	slices.Sort(revisions)
	for _, revision := range revisions[min(warmup, len(revisions)):] {
		t := r.ends[revision]
		commits = append(commits, float64(t.received-t.committed)/1e6)
		writes = append(writes, float64(t.received-t.asked)/1e6)
	}
	return commits, writes
}

// measure makes updates and waits until they are known at both ends; without the
// subscriber, at the one.
func (r *commitRun) measure(ctx context.Context, rig *commitRig, subscribe bool) (err error) {
	if !subscribe {
		return r.write(ctx, rig.client, rig.names, rig.updates)
	}
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{rig.cluster.EtcdEndpoint()}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("connect to etcd: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	conn, err := nats.Connect(rig.bus)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := conn.JetStream()
	if err != nil {
		return err
	}
	subscription, err := js.Subscribe("events.>", func(m *nats.Msg) {
		now := clock()
		if revision, err := strconv.ParseUint(m.Header.Get("ce-resourceversion"), 10, 64); err == nil {
			r.note(revision, func(t *trip) { t.received = now })
		}
	}, nats.OrderedConsumer(), nats.DeliverNew())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, subscription.Unsubscribe()) }()
	watching, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	responses := store.Watch(watching, "/registry/pods/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-responses
	var reader sync.WaitGroup
	reader.Go(func() {
		for response := range responses {
			now := clock()
			for _, e := range response.Events {
				r.note(uint64(e.Kv.ModRevision), func(t *trip) { t.committed = now })
			}
		}
	})
	defer reader.Wait()
	defer stop()
	if err := r.write(ctx, rig.client, rig.names, rig.updates); err != nil {
		return err
	}
	return eventually(ctx, fmt.Sprintf("%d updates arrive", rig.updates), 50*time.Millisecond, time.Minute, func() (bool, error) {
		n := r.arrived()
		if n < rig.updates {
			return false, fmt.Errorf("%d have arrived", n)
		}
		return true, nil
	})
}

// write makes updates at the rate, as far as the API server keeps up.
func (r *commitRun) write(ctx context.Context, client dynamic.Interface, names []string, updates int) error {
	due := make(chan int)
	errs := make(chan error, commitWriters)
	var writers sync.WaitGroup
	pods := client.Resource(podResource()).Namespace("default")
	for range commitWriters {
		writers.Go(func() {
			for i := range due {
				asked := clock()
				patch := fmt.Sprintf(`{"status":{"message":"update %d"}}`, asked)
				o, err := pods.Patch(ctx, names[i%len(names)], types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
				if err != nil {
					errs <- err
					return
				}
				if revision, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64); err == nil {
					r.note(revision, func(t *trip) { t.asked = asked })
				}
			}
		})
	}
	tick := time.NewTicker(time.Second / commitRate)
	defer tick.Stop()
	var err error
	for i := 0; i < updates && err == nil; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			err = ctx.Err()
			continue
		}
		select {
		case due <- i:
		case err = <-errs:
		}
	}
	close(due)
	writers.Wait()
	return err
}
