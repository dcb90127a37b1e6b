package delivery_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/kafka"
)

const kafkaTopic = "e2e"

// topicReader reads a topic of one partition from its begin, as far as it is written.
type topicReader struct {
	client *kgo.Client
	all    []e2e.Record      // without tombstones
	last   map[string]string // by key, the id of its last record; empty for a tombstone
}

func newTopicReader(t *testing.T, brokers *kafka.Cluster) *topicReader {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers.Addresses()...), kgo.ConsumeTopics(kafkaTopic),
		kgo.DisableClientMetrics(), kgo.FetchMaxWait(100*time.Millisecond))
	e2e.Must(t, err)
	t.Cleanup(client.Close)
	return &topicReader{client: client, last: map[string]string{}}
}

// records returns what is there by now.
func (r *topicReader) records(t *testing.T) []e2e.Record {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		fetches := r.client.PollFetches(ctx)
		cancel()
		if fetches.NumRecords() == 0 {
			return r.all
		}
		fetches.EachRecord(func(got *kgo.Record) {
			if got.Value == nil {
				r.last[string(got.Key)] = ""
				return
			}
			event, err := e2e.DecodeEvent(bytes.NewReader(got.Value))
			e2e.Must(t, err)
			r.all = append(r.all, event)
			r.last[string(got.Key)] = event.ID
		})
	}
}

// breakBrokers kills or freezes one of three brokers after the other, until the time is up. Each
// is in sync again before the next one fails.
func breakBrokers(t *testing.T, brokers *kafka.Cluster, random *rand.Rand, duration time.Duration) {
	t.Helper()
	for end := time.Now().Add(duration); time.Now().Before(end); {
		b, kills := brokers.Broker(1+random.Int32N(3)), random.IntN(2) == 0
		failsFor := time.Duration(random.IntN(6000)) * time.Millisecond
		t.Logf("%s for %v, killed: %t", b.Name(), failsFor, kills)
		fail, mend := b.Freeze, b.Thaw
		if kills {
			fail, mend = b.Kill, func() error { return b.Start(t.Context()) }
		}
		e2e.Must(t, fail())
		<-time.After(failsFor)
		e2e.Must(t, mend())
		e2e.Eventually(t, "all replicas are in sync", func() bool {
			all, err := brokers.Partitions(t.Context(), kafkaTopic)
			return err == nil && len(all) == 1 && len(all[0].ISR) == 3
		})
	}
}

// TestKafkaBrokersFail: brokers are killed and frozen at random while objects change.
// The topic has every event, in order, and ends with the last state of each object.
func TestKafkaBrokersFail(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	brokers := kafka.Start(t, kafka.Options{Brokers: 3})
	r := e2e.NewRig(t)
	s := r.Setup(e2e.LogJournal + e2e.LongHistory)
	options := "topic: " + kafkaTopic + ", format: cloudevents, create: {partitions: 1}"
	s.Sinks = fmt.Sprintf("- {name: topic, type: kafka, servers: %s, %s}",
		e2e.ServerList(strings.Join(brokers.Addresses(), ",")), options)
	d := e2e.NewInformd(t, s)
	d.Start()
	d.WaitForLive(len(r.Kinds))
	topic := newTopicReader(t, brokers)
	e2e.Eventually(t, "the topic has the first events", func() bool { return e2e.Complete(r.Kinds, topic.records(t), r.Ledger) })
	end := r.Load()
	breakBrokers(t, brokers, rand.New(rand.NewPCG(seed, 1)), 45*time.Second)
	end()
	e2e.Eventually(t, "the topic is complete", func() bool { return e2e.Complete(r.Kinds, topic.records(t), r.Ledger) })
	unique, repeats := e2e.Once(t, topic.all)
	t.Logf("%d events, %d of them repeated", len(unique), repeats)
	for _, k := range r.Kinds {
		t.Run(k.GVR.Resource, func(t *testing.T) { e2e.Check(t, k, unique, r.Ledger, r.Client, e2e.Claim{LastStates: true}) })
	}
	// A repeated event does not come behind a newer one for good.
	ends := map[string]string{}
	for _, e := range unique {
		key := "e2e/" + e.Subject
		if ends[key] = e.ID; e.Op == "deleted" {
			ends[key] = ""
		}
	}
	for key, id := range ends {
		if topic.last[key] != id {
			t.Errorf("the last record of %s is %q, want %q", key, topic.last[key], id)
		}
	}
}
