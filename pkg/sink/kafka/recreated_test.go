package kafka_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
)

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
