package kafka_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

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

// TestTopicCreatedAgain: another client deletes the single topic of a sink. The sink reports another
// identity, by whichever client the topic is created again, and the same one for the same topic.
func TestTopicCreatedAgain(t *testing.T) {
	for name, again := range map[string]bool{"by the sink": false, "by another client": true} {
		t.Run(name, func(t *testing.T) {
			cluster := startCluster(t)
			c := config(t, cluster, nil)
			if _, identified := c.Destination(); !identified {
				t.Fatal("a single topic has no identity")
			}
			var found []string
			collect := func(env *sink.Env) { env.Found = func(identity string) { found = append(found, identity) } }
			events := sinktest.Events(30)
			sinktest.Deliver(t, sinktest.Open(t, c, collect), events[:10])
			s := sinktest.Open(t, c, collect)
			sinktest.Deliver(t, s, events[10:20])
			if len(found) == 0 || len(slices.Compact(slices.Clone(found))) != 1 {
				t.Fatalf("two sinks of one topic found %q, want one identity", found)
			}
			before := found[0]
			sinktest.Must(t, cluster.DeleteTopic(topic))
			if again {
				sinktest.Must(t, cluster.CreateTopic(topic, 1, nil))
			}
			sinktest.Deliver(t, s, events[20:])
			if last := found[len(found)-1]; last == before || !strings.HasPrefix(last, topic+" ") {
				t.Errorf("the sink found %q after %q", last, before)
			}
			if got := ids(withoutTombstones(consumed(t, cluster, []string{topic}))); len(got) < 10 {
				t.Errorf("the new topic has %d events, want 10", len(got))
			}
		})
	}
}

// TestOneOfSeveralTopicsCreatedAgain: a sink with several topics has no identity. It warns of
// the topic that was created again, and of no new one.
func TestOneOfSeveralTopicsCreatedAgain(t *testing.T) {
	cluster := startCluster(t)
	c := config(t, cluster, func(c *kafka.Config) { c.Topic = "k8s.{group}.{resource}" })
	if _, identified := c.Destination(); identified {
		t.Fatal("several topics have an identity")
	}
	var text bytes.Buffer
	s := sinktest.Open(t, c, func(env *sink.Env) {
		env.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn}))
		env.Found = func(identity string) { t.Errorf("the sink found %s", identity) }
	})
	events := sinktest.Events(20)
	sinktest.Deliver(t, s, events)
	if text.Len() > 0 {
		t.Fatalf("new topics are in the log:\n%s", &text)
	}
	first := "k8s.core." + events[0].Resource
	if events[0].Group != "" {
		first = "k8s." + events[0].Group + "." + events[0].Resource
	}
	sinktest.Must(t, cluster.DeleteTopic(first))
	sinktest.Deliver(t, s, events)
	if diff := cmp.Diff(1, strings.Count(text.String(), "topic created again")); diff != "" || !strings.Contains(text.String(), "topic="+first) {
		t.Errorf("warnings (-want +got):\n%s%s", diff, &text)
	}
}

// TestSingleTopic: only the cluster may vary in the topic of a sink that has one topic.
func TestSingleTopic(t *testing.T) {
	for text, want := range map[string]bool{
		"k8s": true, "k8s.{cluster}": true, "{cluster}.k8s.{cluster}": true, "k8s.{resource}": false, "k8s.{cluster}.{group}": false,
	} {
		if _, got := (&kafka.Config{Topic: text}).Destination(); got != want {
			t.Errorf("topic %s is single: %t, want %t", text, got, want)
		}
	}
}

// TestTopicOfAnotherCreator: another client creates the topic just before the sink would. The
// sink reports the id of that topic.
func TestTopicOfAnotherCreator(t *testing.T) {
	cluster := startCluster(t)
	var found []string
	collect := func(env *sink.Env) { env.Found = func(identity string) { found = append(found, identity) } }
	events := sinktest.Events(20)
	sinktest.Deliver(t, sinktest.Open(t, config(t, cluster, nil), collect), events[:10])
	hidden := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Err: kerr.UnknownTopicOrPartition, Count: 1})
	s := sinktest.Open(t, config(t, cluster, nil), collect)
	sinktest.MustWrite(t, s, events[10:])
	hidden.Remove()
	if len(slices.Compact(slices.Clone(found))) != 1 || len(found) != 2 {
		t.Errorf("the sinks found %q, want the same identity twice", found)
	}
}
