package sinks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
	kafkaserver "github.com/informd/informd/test/kafka"
)

// kafkaConfig returns the options of a sink for one topic of the cluster, with what change
// does to them.
func kafkaConfig(t *testing.T, cluster *kafkaserver.Cluster, topic string, change func(c *kafka.Config)) *kafka.Config {
	t.Helper()
	return sinktest.Options(t, kafka.Driver(), func(c *kafka.Config) {
		c.Servers, c.Topic = connection.NewServers(cluster.Addresses()...), topic
	}, change)
}

// kafkaAdmin is a client of the test's own, who may do everything.
func kafkaAdmin(t *testing.T, cluster *kafkaserver.Cluster) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addresses()...), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(50*time.Millisecond))
	must(t, err)
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// eventually repeats a question until it has the answer yes.
func eventually(t *testing.T, what string, ask func(ctx context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		limited, stop := context.WithTimeout(ctx, 5*time.Second)
		yes, err := ask(limited)
		stop()
		if yes && err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: not within %v (%v)", what, patience, err)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// kafkaRecords returns all records of a topic, by partition and in their order. A topic that
// does not exist has none.
func kafkaRecords(t *testing.T, cluster *kafkaserver.Cluster, topic string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addresses()...), kgo.DisableClientMetrics(),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(50*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond))
	must(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	var ends kadm.ListedOffsets
	eventually(t, "every partition of "+topic+" has a leader", func(ctx context.Context) (bool, error) {
		ends, err = admin.ListEndOffsets(ctx, topic)
		if errors.Is(ends.Error(), kerr.UnknownTopicOrPartition) {
			ends = nil
		}
		return err == nil, ends.Error()
	})
	left := map[int32]int64{} // the ends of partitions that are not read yet
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	var all []*kgo.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("read the topic back: %v; %v are left", fetches.Err(), left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			all = append(all, r)
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return all
}

// kafkaID is the id of a record's event, or "-" for a tombstone.
func kafkaID(r *kgo.Record) string {
	if r.Value == nil {
		return "-"
	}
	for _, h := range r.Headers {
		if h.Key == "ce_id" {
			return string(h.Value)
		}
	}
	return ""
}

// wantInTopic holds a topic to the events: all of them, and in order by key, whether a consumer
// takes the first or the last of those that came twice. It returns how many came twice.
func wantInTopic(t *testing.T, cluster *kafkaserver.Cluster, topic string, events []event.Event) (twice int) {
	t.Helper()
	first, last, final := map[string]int{}, map[string]int{}, map[string]string{}
	for i, r := range kafkaRecords(t, cluster, topic) {
		id := kafkaID(r)
		final[string(r.Key)] = id
		if id == "-" {
			continue
		}
		if _, ok := first[id]; ok {
			twice++
		} else {
			first[id] = i
		}
		last[id] = i
	}
	before, ends := map[string]string{}, map[string]string{}
	missing := 0
	for i := range events {
		id, key := events[i].ID, "test/"+events[i].Subject()
		if _, ok := first[id]; !ok {
			missing++
			continue
		}
		if prev, ok := before[key]; ok && (first[prev] > first[id] || last[prev] > last[id]) {
			t.Errorf("key %s: event %s came after %s", key, prev, id)
		}
		before[key], ends[key] = id, id
		if events[i].Op == event.Deleted {
			ends[key] = "-"
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d events are missing", missing, len(events))
	}
	if diff := cmp.Diff(ends, final); diff != "" {
		t.Errorf("last record by key (-want +got):\n%s", diff)
	}
	return twice
}

// kafkaRecord reads a record as a consumer does that knows CloudEvents only.
func kafkaRecord(t *testing.T, r *kgo.Record) sinktest.Record {
	t.Helper()
	read := sinktest.Record{Attributes: map[string]string{}, Data: string(r.Value)}
	for _, h := range r.Headers {
		name, ok := strings.CutPrefix(h.Key, "ce_")
		if h.Key == "content-type" {
			name, ok = "datacontenttype", true
		}
		if _, twice := read.Attributes[name]; !ok || twice {
			t.Errorf("header %q is there twice, or does not belong to CloudEvents", h.Key)
		}
		read.Attributes[name] = string(h.Value)
	}
	return read
}
