package sinks_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
	kafkaserver "github.com/informd/informd/test/kafka"
)

// three is a cluster of three brokers, a topic with a leader on each of them, and a sink that
// writes all the time.
type three struct {
	cluster *kafkaserver.Cluster
	sink    sink.Sink
	random  *rand.Rand
	events  []event.Event
	done    int          // events that the sink has acknowledged
	taken   atomic.Int64 // during a fault
}

const (
	loadTopic      = "load"
	loadPartitions = 6
)

// TestKafkaThreeBrokers kills, freezes and restarts brokers under load: whatever a sink has
// acknowledged is in the topic, and in order.
func TestKafkaThreeBrokers(t *testing.T) {
	cluster := kafkaserver.Start(t, kafkaserver.Options{Brokers: 3})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := &three{
		cluster: cluster, random: rand.New(rand.NewPCG(seed, 1)),
		events: busy(1 << 16),
	}
	if _, err := kafkaAdmin(t, cluster).CreateTopic(t.Context(), loadPartitions, 3, nil, loadTopic); err != nil {
		t.Fatal(err)
	}
	l.healthy(t)
	l.sink = open(t, kafkaConfig(t, cluster, loadTopic, nil))
	for _, fault := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"kill the controller, which leads partitions, too", l.killController},
		{"freeze the controller until others have its work", l.freezeController},
		{"freeze each for a moment", l.freezeEach},
		{"restart", l.restart},
	} {
		t.Run(fault.name, func(t *testing.T) { l.during(t, fault.do) })
	}
	t.Run("kill two of three", l.killTwo)
	t.Run("unclean leader election", l.uncleanElection)
	twice := wantInTopic(t, cluster, loadTopic, l.events[:l.done])
	t.Logf("%d events, %d came twice", l.done, twice)
}

// healthy waits until every replica of the topic is in sync.
func (l *three) healthy(t *testing.T) {
	t.Helper()
	eventually(t, "all replicas are in sync", func(ctx context.Context) (bool, error) {
		all, err := l.cluster.Partitions(ctx, loadTopic)
		return len(all) == loadPartitions && !slices.ContainsFunc(all, func(p kmsg.MetadataResponseTopicPartition) bool {
			return len(p.ISR) < 3
		}), err
	})
}

// write writes one batch, and notes what is left of it.
func (l *three) write(ctx context.Context) error {
	n, err := l.sink.Write(ctx, l.events[l.done:l.done+1+l.random.IntN(60)])
	l.done += n
	l.taken.Add(int64(n))
	return err
}

// during writes until the fault is over and everything is in sync again.
func (l *three) during(t *testing.T, fault func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- fault(ctx) }()
	before := l.done
	for {
		if err := l.write(ctx); err != nil {
			if sink.IsPermanent(err) || sink.IsUnknown(err) || ctx.Err() != nil {
				t.Fatalf("%d events are written: %v", l.done-before, err)
			}
			t.Logf("after %d events: %v", l.done-before, err)
		}
		pause(ctx, 20*time.Millisecond)
		select {
		case err := <-over:
			must(t, err)
			l.healthy(t)
			sinktest.Deliver(t, l.sink, l.events[l.done:l.done+100])
			l.done += 100
			return
		default:
		}
	}
}

// replaced waits until a broker is neither the controller nor a leader.
func (l *three) replaced(ctx context.Context, id int32) error {
	for ctx.Err() == nil {
		all, err := l.cluster.Partitions(ctx, loadTopic)
		controller, controllerErr := l.cluster.Controller(ctx)
		leads := slices.ContainsFunc(all, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader == id })
		if err == nil && controllerErr == nil && controller != id && !leads && len(all) == loadPartitions {
			return nil
		}
		pause(ctx, 50*time.Millisecond)
	}
	return fmt.Errorf("broker %d is not replaced: %w", id, ctx.Err())
}

func (l *three) killController(ctx context.Context) error {
	id, err := l.cluster.Controller(ctx)
	if err != nil {
		return err
	}
	if err := l.cluster.Broker(id).Kill(); err != nil {
		return err
	}
	if err := l.replaced(ctx, id); err != nil {
		return err
	}
	return l.cluster.Broker(id).Start(ctx)
}

// freezeController: the requests that the broker has in its buffers when it goes on are old.
func (l *three) freezeController(ctx context.Context) error {
	id, err := l.cluster.Controller(ctx)
	if err != nil {
		return err
	}
	if err := l.cluster.Broker(id).Freeze(); err != nil {
		return err
	}
	if err := l.replaced(ctx, id); err != nil {
		return err
	}
	for before := l.taken.Load(); l.taken.Load() < before+100; { // by the new leaders
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("no events beside a frozen broker: %w", ctx.Err())
		}
	}
	return l.cluster.Broker(id).Thaw()
}

func (l *three) freezeEach(ctx context.Context) error {
	for _, b := range l.cluster.Brokers() {
		if err := b.Freeze(); err != nil {
			return err
		}
		pause(ctx, 700*time.Millisecond)
		if err := b.Thaw(); err != nil {
			return err
		}
		pause(ctx, 300*time.Millisecond)
	}
	return nil
}

func (l *three) restart(ctx context.Context) error {
	b := l.cluster.Broker(1)
	if err := b.Stop(); err != nil {
		return err
	}
	return b.Start(ctx)
}

// killTwo: one broker alone acknowledges nothing. The sink returns an error that passes.
func (l *three) killTwo(t *testing.T) {
	for _, id := range []int32{2, 3} {
		must(t, l.cluster.Broker(id).Kill())
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	started := time.Now()
	for {
		err := l.write(ctx)
		if err == nil {
			continue // of partitions that no lost broker led
		}
		if sink.IsPermanent(err) || sink.IsUnknown(err) || ctx.Err() != nil {
			t.Fatal(err)
		}
		t.Logf("after %v: %v", time.Since(started), err)
		break
	}
	must(t, l.cluster.StartAll(ctx))
	sinktest.Deliver(t, l.sink, l.events[l.done:l.done+100])
	l.done += 100
}

// uncleanElection: the only replica in sync dies, and one that lacks its events becomes the
// leader. No client can prevent that loss; the sink notices it, and has informd repeat every
// object.
func (l *three) uncleanElection(t *testing.T) {
	const topic = "unclean"
	first, second := l.cluster.Broker(1), l.cluster.Broker(2)
	must(t, l.cluster.CreateTopic(t.Context(), topic, []int32{first.ID, second.ID},
		map[string]string{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}))
	var found []string
	var log bytes.Buffer
	env := sinktest.Env(t)
	env.Found = func(identity string) { found = append(found, identity) }
	env.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := openIn(t, kafkaConfig(t, l.cluster, topic, nil), env)
	events := sinktest.Events(60)
	sinktest.Deliver(t, s, events[:20])

	must(t, second.Kill())
	l.inSync(t, topic, first.ID)
	sinktest.Deliver(t, s, events[20:40])
	if strings.Contains(log.String(), "lost") {
		t.Fatalf("a loss before there was one:\n%s", &log)
	}
	before := slices.Clone(found)
	must(t, first.Kill(), second.Start(t.Context()))
	l.inSync(t, topic, second.ID)
	sinktest.Deliver(t, s, events[40:])

	got := map[string]bool{}
	for _, r := range kafkaRecords(t, l.cluster, topic) {
		got[kafkaID(r)] = true
	}
	for i := range events {
		if lost := i >= 20 && i < 40; got[events[i].ID] == lost {
			t.Errorf("the topic has event %d: %t", i, !lost)
		}
	}
	if !strings.Contains(log.String(), "lost acknowledged events") {
		t.Errorf("the sink does not say that events are lost:\n%s", &log)
	}
	// The empty identity in between has informd send a gap and every object.
	if diff := cmp.Diff([]string{"", before[0]}, found[len(found)-2:]); diff != "" {
		t.Errorf("identities (-want +got):\n%s", diff)
	}
	must(t, first.Start(t.Context()))
}

// inSync waits until one broker leads the topic, and no other one is in sync.
func (l *three) inSync(t *testing.T, topic string, id int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("broker %d alone has %s", id, topic), func(ctx context.Context) (bool, error) {
		all, err := l.cluster.Partitions(ctx, topic)
		return len(all) == 1 && all[0].Leader == id && slices.Equal(all[0].ISR, []int32{id}), err
	})
}

// TestKafkaConformance runs the suite on one broker, with a topic for each check. A broken
// broker is a killed one, a stalled one is frozen.
func TestKafkaConformance(t *testing.T) {
	cluster := kafkaserver.Start(t, kafkaserver.Options{Config: map[string]string{
		"message.max.bytes":            fmt.Sprint(maxPayload),
		"broker.session.timeout.ms":    "1000",
		"broker.heartbeat.interval.ms": "200",
	}})
	topics := 0
	sinktest.Run(t, sinktest.Target{
		Lanes: kafka.Driver().Lanes,
		Setup: func(t *testing.T) *sinktest.Destination {
			t.Helper()
			topics++
			return kafkaDestination(cluster, fmt.Sprint("t", topics))
		},
		IgnoreGoroutines: []goleak.Option{
			goleak.IgnoreAnyFunction("github.com/informd/informd/test/cluster/proc.launch.func1"),
		},
	})
}

func kafkaDestination(cluster *kafkaserver.Cluster, topic string) *sinktest.Destination {
	d := &sinktest.Destination{
		Open: func(t *testing.T) sink.Sink {
			t.Helper()
			s, err := kafkaConfig(t, cluster, topic, nil).Open(t.Context(), sinktest.Env(t))
			must(t, err)
			return s
		},
		Received: func(t *testing.T) []sinktest.Record {
			t.Helper()
			var all []sinktest.Record
			for _, r := range kafkaRecords(t, cluster, topic) {
				if r.Value != nil { // tombstones are no events
					all = append(all, kafkaRecord(t, r))
				}
			}
			return all
		},
		Poison: tooLarge,
	}
	faultsOf(d, cluster.Broker(1).Process, func(*testing.T) {})
	return d
}
