package measured_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/natsserver"
)

// electionCost is how much longer than its stream a sink may be blocked when the leader of the
// stream is killed: one second, and half a second for a machine that is busy with other tests.
const electionCost = 1500 * time.Millisecond

// TestLeaderElection: the leader of the sink's stream is killed in a cluster of three. Events
// flow again as soon as the stream has a leader: a client that publishes into the same stream
// at short intervals says when that is.
func TestLeaderElection(t *testing.T) {
	r := e2e.NewRig(t)
	servers := natsserver.StartCluster(t, 3, natsserver.Options{})
	s := r.Setup(e2e.LogJournal + e2e.LongHistory)
	s.Sinks = e2e.ClusteredSink(servers)
	d := e2e.NewInformd(t, s)
	d.Start()
	d.WaitForLive(len(r.Kinds))
	probe := &probe{t: t, servers: servers, down: -1}
	end := r.Load()
	e2e.Eventually(t, "a hundred events", func() bool { return len(d.Records()) > 100 })
	for round := range 3 {
		killed := probe.killLeader()
		elected := probe.works(killed)
		flows := probe.informdWorks(elected)
		t.Logf("round %d: the stream is down for %.2f s, informd for %.2f s more", round, elected.Sub(killed).Seconds(), flows.Sub(elected).Seconds())
		if cost := flows.Sub(elected); cost > electionCost {
			t.Errorf("informd takes %v longer than the server, want at most %v", cost, electionCost)
		}
		probe.restart()
	}
	end()
	d.WaitForLive(len(r.Kinds))
	e2e.Eventually(t, "file complete", func() bool { return e2e.Complete(r.Kinds, d.Records(), r.Ledger) })
	for _, k := range r.Kinds {
		e2e.Check(t, k, d.Records(), r.Ledger, r.Client, e2e.Claim{})
	}
}

// probeSubject is in the stream of the sink bus, and of no object.
const probeSubject = "events.e2e._probe"

// probe publishes into the stream of the sink bus and watches what informd stores there.
type probe struct {
	t       *testing.T
	servers []*natsserver.Server
	down    int // the server that was killed; -1: none
}

func (p *probe) connect() (*nats.Conn, jetstream.JetStream) {
	p.t.Helper()
	up := slices.Clone(p.servers)
	if p.down >= 0 {
		up = slices.Delete(up, p.down, p.down+1)
	}
	nc, err := nats.Connect(natsserver.URLs(up), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
	e2e.Must(p.t, err)
	js, err := jetstream.New(nc)
	e2e.Must(p.t, err)
	return nc, js
}

// killLeader kills the server that leads the stream, and returns when.
func (p *probe) killLeader() time.Time {
	p.t.Helper()
	nc, js := p.connect()
	defer nc.Close()
	s, err := js.Stream(p.t.Context(), e2e.BusStream)
	e2e.Must(p.t, err)
	if _, err := fmt.Sscanf(s.CachedInfo().Cluster.Leader, "n%d", &p.down); err != nil {
		p.t.Fatal(err)
	}
	e2e.Must(p.t, p.servers[p.down].Kill())
	return time.Now()
}

// works returns when the stream takes messages again and can be read: a consumer is made by the leader of the whole cluster, which may have been on the
// killed server, too.
func (p *probe) works(since time.Time) time.Time {
	p.t.Helper()
	nc, js := p.connect()
	defer nc.Close()
	try := func(what string, ask func(ctx context.Context) error) {
		for time.Since(since) < e2e.Patience {
			ctx, cancel := context.WithTimeout(p.t.Context(), 200*time.Millisecond)
			err := ask(ctx)
			cancel()
			if err == nil {
				return
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				<-time.After(10 * time.Millisecond)
			}
		}
		p.t.Fatalf("%s has no leader after %v", what, e2e.Patience)
	}
	try("the stream", func(ctx context.Context) error {
		_, err := js.Publish(ctx, probeSubject, nil, jetstream.WithRetryAttempts(0))
		return err
	})
	try("the cluster", func(ctx context.Context) error {
		s, err := js.Stream(ctx, e2e.BusStream)
		if err != nil {
			return err
		}
		_, err = s.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: time.Second})
		return err
	})
	return time.Now()
}

// informdWorks returns when a message of informd's is in the stream that came after the
// election.
func (p *probe) informdWorks(elected time.Time) time.Time {
	p.t.Helper()
	nc, js := p.connect()
	defer nc.Close()
	var stored time.Time
	e2e.Eventually(p.t, "informd stores something in stream "+e2e.BusStream, func() bool {
		ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
		defer cancel()
		s, err := js.Stream(ctx, e2e.BusStream)
		if err != nil {
			return false
		}
		c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &elected})
		if err != nil {
			return false
		}
		found, err := c.Fetch(100, jetstream.FetchMaxWait(500*time.Millisecond))
		if err != nil {
			return false
		}
		for m := range found.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return false
			}
			if m.Subject() != probeSubject && stored.IsZero() {
				stored = meta.Timestamp
			}
		}
		return !stored.IsZero()
	})
	return stored
}

// restart starts the server that was killed, and waits until the stream has all copies.
func (p *probe) restart() {
	p.t.Helper()
	e2e.Must(p.t, p.servers[p.down].Start(p.t.Context()))
	p.down = -1
	nc, js := p.connect()
	defer nc.Close()
	e2e.Eventually(p.t, "all copies are current", func() bool {
		s, err := js.Stream(p.t.Context(), e2e.BusStream)
		if err != nil || s.CachedInfo().Cluster == nil {
			return false
		}
		n := 0
		for _, replica := range s.CachedInfo().Cluster.Replicas {
			if replica.Current {
				n++
			}
		}
		return n == len(p.servers)-1
	})
}
