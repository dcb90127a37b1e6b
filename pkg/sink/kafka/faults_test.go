package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// wantInOrder holds what the topic has to the events: all of them and in order, and by key the last one. It returns
// how many came twice.
func wantInOrder(t *testing.T, records []*kgo.Record, events []event.Event) (twice int) {
	t.Helper()
	twice, err := sinktest.InOrder(ids(withoutTombstones(records)), events)
	sinktest.Must(t, err)
	wantLast(t, records, events)
	return twice
}

// wantLast compares the last record of each key with the events, of which a deletion leaves a tombstone.
func wantLast(t *testing.T, records []*kgo.Record, events []event.Event) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for i := range events {
		key := "test/" + events[i].Subject()
		if want[key] = events[i].ID; events[i].Op == event.Deleted {
			want[key] = "-"
		}
	}
	for i, id := range ids(records) {
		got[string(records[i].Key)] = id
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("last record by key (-want +got):\n%s", diff)
	}
}

// wantOnce holds the topic to the events, each of them once.
func wantOnce(t *testing.T, cluster *kfake.Cluster, events []event.Event) {
	t.Helper()
	if twice := wantInOrder(t, consumed(t, cluster, []string{topic}), events); twice != 0 {
		t.Errorf("%d events came twice", twice)
	}
}

// TestOrderUnderFaults writes while leaders move, brokers refuse, time out after
// they have appended, and cut connections, and while Writes are given up in
// between.
func TestOrderUnderFaults(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	cluster := startCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(4, topic))
	s := sinktest.Open(t, config(t, cluster, func(c *kafka.Config) { c.Compression = "snappy" }))
	events := sinktest.Events(700)
	passing := []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
		kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed, kerr.KafkaStorageError,
	}
	deadline := time.Now().Add(3 * patience)
	for left := events; len(left) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d events are left", len(left))
		}
		switch random.IntN(4) {
		case 0:
			fault := passing[random.IntN(len(passing))]
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: fault, Count: 1 + random.IntN(3)})
		case 1:
			cluster.ShufflePartitionLeaders()
		case 2:
			cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				return nil, errors.New("cut"), true
			})
		}
		limit := patience
		if random.IntN(3) == 0 {
			limit = time.Duration(random.IntN(20)) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		n, err := s.Write(ctx, left[:min(len(left), 1+random.IntN(60))])
		cancel()
		if sink.IsPermanent(err) {
			t.Fatalf("Write called a failure permanent that passes: %v", err)
		}
		left = left[n:]
	}
	twice := wantInOrder(t, consumed(t, cluster, []string{topic}), events)
	t.Logf("%d events came twice", twice)
}

// TestNothingTwice: what a broker has appended without being able to say so, and
// what is repeated for another leader, is stored once.
func TestNothingTwice(t *testing.T) {
	for name, trouble := range map[string]func(cluster *kfake.Cluster, a *answers){
		"timed out":      func(c *kfake.Cluster, _ *answers) { c.Fault(fault(kerr.RequestTimedOut)) },
		"not replicated": func(c *kfake.Cluster, _ *answers) { c.Fault(fault(kerr.NotEnoughReplicasAfterAppend)) },
		"answer lost":    func(c *kfake.Cluster, a *answers) { a.cutNext(c) },
		"leader moved":   func(c *kfake.Cluster, _ *answers) { c.ShufflePartitionLeaders() },
		"refused":        func(c *kfake.Cluster, _ *answers) { c.Fault(fault(kerr.NotLeaderForPartition)) },
	} {
		t.Run(name, func(t *testing.T) {
			a := &answers{}
			cluster := startCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(3, topic), kfake.ListenFn(a.listen))
			s := sinktest.Open(t, config(t, cluster, nil))
			events := sinktest.Events(90)
			for i := 0; i < len(events); i += 30 {
				trouble(cluster, a)
				sinktest.MustWrite(t, s, events[i:i+30])
			}
			wantOnce(t, cluster, events)
		})
	}
}

func fault(err *kerr.Error) kfake.Fault {
	return kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: err}
}

// answers can lose the answer to a request that the broker has carried out.
type answers struct{ cut atomic.Bool }

func (a *answers) listen(network, address string) (net.Listener, error) {
	listener, err := net.Listen(network, address) //nolint:noctx // the signature is kfake's
	return lossyListener{listener, a}, err
}

// cutNext loses the answer to the next Produce request.
func (a *answers) cutNext(cluster *kfake.Cluster) {
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, When: func(kmsg.Request) bool {
		a.cut.Store(true)
		return true
	}})
}

type lossyListener struct {
	net.Listener
	answers *answers
}

func (l lossyListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return lossyConn{conn, l.answers}, err
}

type lossyConn struct {
	net.Conn
	answers *answers
}

func (c lossyConn) Write(b []byte) (int, error) {
	if c.answers.cut.CompareAndSwap(true, false) {
		return 0, errors.Join(errors.New("cut"), c.Close())
	}
	return c.Conn.Write(b)
}

// TestRestart stops the brokers and starts them again with what they have stored.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	first := startCluster(t, kfake.DataDir(dir))
	_, text, err := net.SplitHostPort(first.ListenAddrs()[0])
	sinktest.Must(t, err)
	port, err := strconv.Atoi(text)
	sinktest.Must(t, err)
	s := sinktest.Open(t, config(t, first, nil))
	events := sinktest.Events(60)
	sinktest.MustWrite(t, s, events[:20])
	first.Close()
	wantError(t, s, events[20:40], "connection refused")
	wantError(t, s, events[20:40], "connection refused")
	second := startCluster(t, kfake.DataDir(dir), kfake.Ports(port))
	sinktest.Deliver(t, s, events[20:])
	wantOnce(t, second, events)
}

// TestTooLarge: the broker refuses a batch as a whole. Only what is too large by
// itself goes to the dead letters, and a deletion leaves its tombstone.
func TestTooLarge(t *testing.T) {
	const limit = 100 << 10
	for name, op := range map[string]event.Op{"added": event.Added, "deleted": event.Deleted} {
		t.Run(name, func(t *testing.T) {
			cluster := startCluster(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": strconv.Itoa(limit)}))
			s := sinktest.Open(t, config(t, cluster, nil))
			events := sinktest.Big(20, limit/4)
			events[13].Op, events[13].Data = op, sinktest.Big(1, 2*limit)[0].Data
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			n, err := s.Write(ctx, events)
			if n != 13 || !sink.IsPermanent(err) || !strings.Contains(err.Error(), "max.message.bytes") {
				t.Fatalf("Write = %d, %v (permanent: %t), want 13 and a permanent error", n, err, sink.IsPermanent(err))
			}
			sinktest.MustWrite(t, s, events[14:])
			var want []string
			for i := range events {
				if i != 13 {
					want = append(want, events[i].ID)
				}
			}
			records := consumed(t, cluster, []string{topic})
			got := ids(withoutTombstones(records))
			slices.Sort(want)
			slices.Sort(got) // each is another object, and there is no order between them
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
			if left := len(records) - len(want); (left == 1) != (op == event.Deleted) {
				t.Errorf("%d tombstones", left)
			}
		})
	}
}

// TestDenials: what only somebody else can mend is an error that says what to do,
// and heals when it is done.
func TestDenials(t *testing.T) {
	for name, tt := range map[string]struct {
		request kmsg.Key
		err     *kerr.Error
		says    string
	}{
		"topic":            {kmsg.Produce, kerr.TopicAuthorizationFailed, "grant Write and Describe"},
		"sight of a topic": {kmsg.Metadata, kerr.TopicAuthorizationFailed, "grant Write and Describe"},
		"idempotence":      {kmsg.InitProducerID, kerr.ClusterAuthorizationFailed, "IdempotentWrite"},
		"full disk":        {kmsg.Produce, kerr.KafkaStorageError, "KAFKA_STORAGE_ERROR"},
		"topic is gone":    {kmsg.Produce, kerr.UnknownTopicOrPartition, "create it"},
		"record checks":    {kmsg.Produce, kerr.InvalidRecord, "INVALID_RECORD"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := startCluster(t)
			s := sinktest.Open(t, config(t, cluster, nil))
			events := sinktest.Events(10)
			denied := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{tt.request}, Err: tt.err, Count: -1, TopLevel: tt.request == kmsg.InitProducerID})
			wantError(t, s, events, tt.says)
			wantError(t, s, events, tt.says)
			denied.Remove()
			sinktest.Deliver(t, s, events)
			wantInOrder(t, consumed(t, cluster, []string{topic}), events)
		})
	}
}

// TestOnlyWhatIsMissing: after a failure in one partition what has arrived in the
// others is not sent again.
func TestOnlyWhatIsMissing(t *testing.T) {
	cluster := startCluster(t, kfake.SeedTopics(4, topic))
	s := sinktest.Open(t, config(t, cluster, nil))
	events := sinktest.Events(7) // one of each object
	denied := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{1, 2}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	n, err := s.Write(t.Context(), events)
	if err == nil || n == len(events) {
		t.Fatalf("Write = %d, %v, want an error", n, err)
	}
	denied.Remove()
	sinktest.MustWrite(t, s, events[n:])
	wantOnce(t, cluster, events)
}

// TestGivenUpInBetween: a Write that ends while its records are on their way loses
// none and repeats none, whatever the next one brings.
func TestGivenUpInBetween(t *testing.T) {
	all := sinktest.Events(14)
	events := all[:7] // one of each object: they are on their way together
	for name, next := range map[string][]event.Event{
		"the same":        events[1:],
		"fewer":           events[1:4],
		"one not wanted":  events[2:],
		"something newer": all[7:],
	} {
		t.Run(name, func(t *testing.T) {
			cluster := startCluster(t)
			s := sinktest.Open(t, config(t, cluster, nil))
			sinktest.MustWrite(t, s, events[:1])
			m := &moods{cluster: cluster}
			m.stall(t)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			n, err := s.Write(ctx, events[1:])
			if n != 0 || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Write = %d, %v, want 0 and the end of the context", n, err)
			}
			m.heal(t)
			sinktest.MustWrite(t, s, next)
			records := consumed(t, cluster, []string{topic})
			if diff := cmp.Diff(sinktest.EventIDs(events), ids(records)[:len(events)]); diff != "" {
				t.Errorf("the topic begins with (-want +got):\n%s", diff)
			}
			expected := events
			if name == "something newer" {
				expected = all
			}
			twice := wantInOrder(t, records, expected)
			if twice != 0 && name != "one not wanted" {
				t.Errorf("%d events came twice", twice)
			}
		})
	}
}

// TestRefusedRecord: a broker refuses a batch as a whole for one record that it does not
// want. The sink finds out which one, says that it does not know why, and delivers all
// others once.
func TestRefusedRecord(t *testing.T) {
	const bad = 13
	cluster := startCluster(t)
	s := sinktest.Open(t, config(t, cluster, nil))
	events := sinktest.Events(20)
	events[bad].Data = []byte(`{"object":{"poison":true}}`)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Count: -1, When: func(r kmsg.Request) bool {
		return bytes.Contains(r.AppendTo(nil), []byte("poison"))
	}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	left := events
	for range 3 { // each time only that one is refused
		n, err := s.Write(ctx, left)
		if left = left[n:]; !sink.IsUnknown(err) || sink.IsPermanent(err) || !strings.Contains(err.Error(), "INVALID_RECORD") {
			t.Fatalf("Write = %d, %v (unknown: %t)", n, err, sink.IsUnknown(err))
		}
		if left[0].ID != events[bad].ID {
			t.Fatalf("the error is about %s, want %s", left[0].ID, events[bad].ID)
		}
	}
	sinktest.MustWrite(t, s, left[1:]) // it is in the dead letters
	want := append(events[:bad:bad], events[bad+1:]...)
	wantOnce(t, cluster, want)
}
