package kafka_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// deleteTopic deletes a topic over another connection. If again is true it also creates the
// topic again.
func deleteTopic(t *testing.T, cluster *kfake.Cluster, name string, again bool) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	gone := kmsg.NewPtrDeleteTopicsRequest()
	gone.TopicNames = []string{name}
	one := kmsg.NewDeleteTopicsRequestTopic()
	one.Topic = &name
	gone.Topics = append(gone.Topics, one)
	deleted, err := gone.RequestWith(t.Context(), client)
	if err == nil {
		err = kerr.ErrorForCode(deleted.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !again {
		return
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	request.Topics = append(request.Topics, topic)
	created, err := request.RequestWith(t.Context(), client)
	if err == nil {
		err = kerr.ErrorForCode(created.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// openWith opens a sink that has this environment.
func openWith(t *testing.T, c *kafka.Config, change func(env *sink.Env)) sink.Sink {
	t.Helper()
	env := sinktest.Env(t)
	change(&env)
	s, err := c.Open(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
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
			deliver(t, openWith(t, c, collect), events[:10])
			s := openWith(t, c, collect)
			deliver(t, s, events[10:20])
			if len(found) == 0 || len(slices.Compact(slices.Clone(found))) != 1 {
				t.Fatalf("two sinks of one topic found %q, want one identity", found)
			}
			before := found[0]
			deleteTopic(t, cluster, topic, again)
			deliver(t, s, events[20:])
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
	s := openWith(t, c, func(env *sink.Env) {
		env.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn}))
		env.Found = func(identity string) { t.Errorf("the sink found %s", identity) }
	})
	events := sinktest.Events(20)
	deliver(t, s, events)
	if text.Len() > 0 {
		t.Fatalf("new topics are in the log:\n%s", &text)
	}
	first := "k8s.core." + events[0].Resource
	if events[0].Group != "" {
		first = "k8s." + events[0].Group + "." + events[0].Resource
	}
	deleteTopic(t, cluster, first, false)
	deliver(t, s, events)
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
	deliver(t, openWith(t, config(t, cluster, nil), collect), events[:10])
	hidden := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Err: kerr.UnknownTopicOrPartition, Count: 1})
	s := openWith(t, config(t, cluster, nil), collect)
	mustWrite(t, s, events[10:])
	hidden.Remove()
	if len(slices.Compact(slices.Clone(found))) != 1 || len(found) != 2 {
		t.Errorf("the sinks found %q, want the same identity twice", found)
	}
}
