package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/test/natsserver"
)

// electionCost is how much longer than its streams informd may be blocked when the leader
// of a stream is killed: one second, and half a second for a machine that is busy with
// other tests.
const electionCost = 1500 * time.Millisecond

// deliveryCost is how much longer a sink may wait for the next event: informd may have to
// read it from a copy of the journal's stream that has to catch up, on a busy machine.
const deliveryCost = 4 * time.Second

// TestLeaderElection: the leader of the journal's stream, then that of the sink's stream,
// is killed in a cluster of three. Events flow again as soon as the stream has a leader:
// a client that publishes into the same stream at short intervals says when that is.
func TestLeaderElection(t *testing.T) {
	for _, stream := range []string{"INFORMD", busStream} {
		t.Run(stream, func(t *testing.T) {
			r := newRig(t)
			servers := natsserver.StartCluster(t, 3, natsserver.Options{})
			s := r.setup(natsJournal(natsserver.URLs(servers)) + ", replicas: 3, maxBytes: 256MiB" + longHistory)
			s.sinks = fmt.Sprintf("- {name: bus, type: nats, servers: %s, subjectPrefix: events, stream: %s, create: {replicas: 3, maxBytes: 256MiB, historyPerObject: 1000}}",
				serverList(natsserver.URLs(servers)), busStream)
			d := newInformd(t, s)
			d.start()
			d.waitForLive(len(r.kinds))
			probe := newProbe(t, servers, stream)
			end := r.load()
			eventually(t, "a hundred events", func() bool { return len(d.records()) > 100 })
			for round := range 3 {
				killed := probe.killLeader()
				elected := probe.works(killed)
				n := len(d.records())
				flows := probe.informdWorks(elected)
				eventually(t, "the file grows", func() bool { return len(d.records()) > n })
				t.Logf("round %d: the stream is down for %.2f s, informd for %.2f s more; the file grows after %.2f s", round, elected.Sub(killed).Seconds(),
					flows.Sub(elected).Seconds(), time.Since(elected).Seconds())
				if cost := time.Since(elected); cost > deliveryCost {
					t.Errorf("a sink waits %v longer than the server, want at most %v", cost, deliveryCost)
				}
				if cost := flows.Sub(elected); cost > electionCost {
					t.Errorf("informd takes %v longer than the server, want at most %v", cost, electionCost)
				}
				probe.restart()
			}
			end()
			eventually(t, "file complete", func() bool { return complete(r.kinds, d.records(), r.ledger) })
			for _, k := range r.kinds {
				unique, _ := once(t, d.records())
				check(t, k, unique, r.ledger, r.client, claim{})
			}
		})
	}
}

// probe publishes into a stream and watches what informd stores there.
type probe struct {
	t       *testing.T
	servers []*natsserver.Server
	stream  string
	subject string
	down    int // the server that was killed
}

func newProbe(t *testing.T, servers []*natsserver.Server, stream string) *probe {
	t.Helper()
	p := &probe{t: t, servers: servers, stream: stream, subject: "k8s.e2e._probe", down: -1}
	if stream == busStream {
		p.subject = "events.e2e._probe"
	}
	return p
}

func (p *probe) connect() (*nats.Conn, jetstream.JetStream) {
	p.t.Helper()
	up := slices.Clone(p.servers)
	if p.down >= 0 {
		up = slices.Delete(up, p.down, p.down+1)
	}
	nc, err := nats.Connect(natsserver.URLs(up), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		p.t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		p.t.Fatal(err)
	}
	return nc, js
}

// killLeader kills the server that leads the stream, and returns when.
func (p *probe) killLeader() time.Time {
	p.t.Helper()
	nc, js := p.connect()
	defer nc.Close()
	s, err := js.Stream(p.t.Context(), p.stream)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := fmt.Sscanf(s.CachedInfo().Cluster.Leader, "n%d", &p.down); err != nil {
		p.t.Fatal(err)
	}
	if err := p.servers[p.down].Kill(); err != nil {
		p.t.Fatal(err)
	}
	return time.Now()
}

// works returns when all of informd's streams take messages again, and when the stream can
// be read: a consumer is made by the leader of the whole cluster, which may have been on the
// killed server, too.
func (p *probe) works(since time.Time) time.Time {
	p.t.Helper()
	nc, js := p.connect()
	defer nc.Close()
	try := func(what string, ask func(ctx context.Context) error) {
		for time.Since(since) < patience {
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
		p.t.Fatalf("%s has no leader after %v", what, patience)
	}
	for _, subject := range []string{"k8s.e2e._probe", "events.e2e._probe", "$KV.INFORMD_LEASE._probe"} {
		try(subject, func(ctx context.Context) error {
			_, err := js.Publish(ctx, subject, nil, jetstream.WithRetryAttempts(0))
			return err
		})
	}
	// What is written there would look like another informd: the leader refuses it.
	try("INFORMD_STATE", func(ctx context.Context) error {
		_, err := js.Publish(ctx, "INFORMD_STATE._probe", nil, jetstream.WithRetryAttempts(0), jetstream.WithExpectLastSequence(math.MaxInt64))
		var refusal *jetstream.APIError
		if errors.As(err, &refusal) && refusal.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			return nil
		}
		return err
	})
	try("the cluster", func(ctx context.Context) error {
		s, err := js.Stream(ctx, p.stream)
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
	eventually(p.t, "informd stores something in stream "+p.stream, func() bool {
		ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
		defer cancel()
		s, err := js.Stream(ctx, p.stream)
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
			if m.Subject() != p.subject && stored.IsZero() {
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
	if err := p.servers[p.down].Start(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	p.down = -1
	nc, js := p.connect()
	defer nc.Close()
	eventually(p.t, "all copies are current", func() bool {
		s, err := js.Stream(p.t.Context(), p.stream)
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
