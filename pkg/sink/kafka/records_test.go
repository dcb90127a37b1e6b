package kafka_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestTombstones: one follows each deletion, with its key and in its partition, and
// nothing else has a null value, events without data included.
func TestTombstones(t *testing.T) {
	for name, on := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			cluster := startCluster(t, kfake.SeedTopics(8, topic))
			events := sinktest.AllOps()
			sinktest.MustWrite(t, sinktest.Open(t, config(t, cluster, func(c *kafka.Config) { c.Tombstones = on })), events)
			want := map[string][]string{} // by key: what was written under it
			for i := range events {
				key := "test/" + events[i].Subject()
				want[key] = append(want[key], events[i].ID)
				if on && events[i].Op == event.Deleted {
					want[key] = append(want[key], "-")
				}
			}
			got, partitions := map[string][]string{}, map[string]int32{}
			records := consumed(t, cluster, []string{topic})
			for i, id := range ids(records) {
				key := string(records[i].Key)
				if before, ok := partitions[key]; ok && before != records[i].Partition {
					t.Errorf("key %s is in the partitions %d and %d", key, before, records[i].Partition)
				}
				got[key], partitions[key] = append(got[key], id), records[i].Partition
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ids by key (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompaction lets the brokers compact what a name's lives have left behind.
func TestCompaction(t *testing.T) {
	cluster := startCluster(t)
	s := sinktest.Open(t, config(t, cluster, func(c *kafka.Config) {
		c.Topic, c.Create = "compacted", kafka.Create{Partitions: 3, Compact: true}
	}))
	events := sinktest.Events(200) // with deletions, and names that come back
	sinktest.MustWrite(t, s, events)
	before := consumed(t, cluster, []string{"compacted"})
	cluster.Compact()
	after := consumed(t, cluster, []string{"compacted"})
	if wantLast(t, after, events); len(after) >= len(before) {
		t.Errorf("%d records were compacted to %d", len(before), len(after))
	}
}

// TestTopicPerResource: each resource has a topic, which is made as the options
// say; what is about no resource has one, too.
func TestTopicPerResource(t *testing.T) {
	cluster := startCluster(t)
	s := sinktest.Open(t, config(t, cluster, func(c *kafka.Config) {
		c.Topic, c.Create = "k8s.{cluster}.{group}.{resource}", kafka.Create{Partitions: 2, Replicas: 1}
	}))
	events := append(sinktest.Events(20), event.Event{
		ID: "sut:1-9:trimmed", Op: event.Gap, Cluster: "test", Target: event.AllTargets, Gap: &event.GapInfo{From: 1, To: 9, Reason: "trimmed"},
	})
	sinktest.MustWrite(t, s, events)
	topics := []string{"k8s.test.apps.deployments", "k8s.test.core.pods", "k8s.test.core.nodes", "k8s.test.shop.example.com.orders", "k8s.test._informd.gap"}
	records := withoutTombstones(consumed(t, cluster, topics))
	if len(records) != len(events) {
		t.Errorf("%d events came back, want %d", len(records), len(events))
	}
	for _, r := range records {
		group, _ := header(r, "ce_group")
		resource, _ := header(r, "ce_resource")
		if want := "k8s.test." + event.GroupOrCore(group) + "." + resource; r.Topic != want && resource != "" {
			t.Errorf("topic %s, want %s", r.Topic, want)
		}
	}
}

// TestTopicIsCreatedByDefault: with no key for it, a topic that does not exist is created
// with the brokers' defaults.
func TestTopicIsCreatedByDefault(t *testing.T) {
	cluster := startCluster(t, kfake.DefaultNumPartitions(5))
	events := sinktest.Events(20)
	sinktest.MustWrite(t, sinktest.Open(t, config(t, cluster, func(c *kafka.Config) { c.Topic = "new" })), events)
	if got := withoutTombstones(consumed(t, cluster, []string{"new"})); len(got) != len(events) {
		t.Errorf("%d events came back, want %d", len(got), len(events))
	}
	if got := len(cluster.PartitionInfos("new")); got != 5 {
		t.Errorf("%d partitions, want the brokers' default of 5", got)
	}
}

// TestMissingTopic: with create: false, the events before the one whose topic does not exist
// are delivered; the rest waits until another client creates the topic.
func TestMissingTopic(t *testing.T) {
	cluster := startCluster(t, kfake.SeedTopics(1, "k8s.deployments"))
	s := sinktest.Open(t, config(t, cluster, func(c *kafka.Config) { c.Topic, c.Create.Never = "k8s.{resource}", true }))
	events := sinktest.AllOps() // of deployments, and a node at the end
	last := len(events) - 1
	n, err := s.Write(t.Context(), events)
	if n != last || err == nil || sink.IsPermanent(err) {
		t.Fatalf("Write = %d, %v, want %d and an error that passes", n, err, last)
	}
	wantError(t, s, events[n:], "topic k8s.nodes does not exist", "create it, or remove create: false")
	sinktest.Must(t, cluster.CreateTopic("k8s.nodes", 1, nil))
	sinktest.MustWrite(t, s, events[n:])
}

// TestImpossibleTopics: what Kafka has no name for is refused for good, and what
// is around it is not.
func TestImpossibleTopics(t *testing.T) {
	cluster := startCluster(t, kfake.SeedTopics(1, "nodes", "pods", "deployments", "orders"))
	s := sinktest.Open(t, config(t, cluster, func(c *kafka.Config) { c.Topic = "{resource}" }))
	for _, resource := range []string{"a/b", "ünï", "..", "with space", "x{group}", strings.Repeat("x", 250)} {
		events := sinktest.Events(5)
		for i := range events {
			events[i].ID = fmt.Sprintf("%s-%s", events[i].ID, resource)
		}
		events[3].Resource = resource
		n, err := s.Write(t.Context(), events)
		if n != 3 || !sink.IsPermanent(err) {
			t.Fatalf("Write = %d, %v (permanent: %t), want 3 and a permanent error", n, err, sink.IsPermanent(err))
		}
		sinktest.MustWrite(t, s, events[4:])
	}
}

func withoutTombstones(records []*kgo.Record) []*kgo.Record {
	var events []*kgo.Record
	for _, r := range records {
		if r.Value != nil {
			events = append(events, r)
		}
	}
	return events
}
