package sinks_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
	kafkaserver "github.com/informd/informd/test/kafka"
)

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
