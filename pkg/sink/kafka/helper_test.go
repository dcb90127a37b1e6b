package kafka_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topic = "k8s-events"
	// maxMessage is what the brokers of the tests take.
	maxMessage = 3 << 20
	patience   = time.Minute
)

// startCluster starts brokers in this process. The topic has one partition unless
// the options say otherwise.
func startCluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1), kfake.SeedTopics(1, topic),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": strconv.Itoa(maxMessage)}),
	}, options...)...)
	sinktest.Must(t, err)
	t.Cleanup(cluster.Close)
	return cluster
}

func config(t *testing.T, cluster *kfake.Cluster, change func(c *kafka.Config)) *kafka.Config {
	t.Helper()
	return sinktest.Options(t, kafka.Driver(), func(c *kafka.Config) {
		c.Servers, c.Topic = connection.NewServers(cluster.ListenAddrs()...), topic
	}, change)
}

// wantError writes an event that must be refused in a way that passes, and holds
// the error to what it says.
func wantError(t *testing.T, s sink.Sink, events []event.Event, says ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := s.Write(ctx, events)
	if n != 0 || err == nil || sink.IsPermanent(err) || ctx.Err() != nil {
		t.Fatalf("Write = %d, %v (permanent: %t), want an error that passes", n, err, sink.IsPermanent(err))
	}
	for _, words := range says {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("error %q does not say %q", err, words)
		}
	}
}

// consumed returns all records of the topics, by partition and in their order.
func consumed(t *testing.T, cluster *kfake.Cluster, topics []string, options ...kgo.Opt) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topics...), kgo.DisableClientMetrics(),
		kgo.FetchMaxWait(50 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, options...)...)
	sinktest.Must(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	left := map[string]map[int32]int64{} // partitions that are not read to their end
	for _, name := range topics {
		for _, p := range cluster.PartitionInfos(name) {
			if p.HighWatermark > 0 {
				if left[name] == nil {
					left[name] = map[int32]int64{}
				}
				left[name][p.Partition] = p.HighWatermark
			}
		}
	}
	var all []*kgo.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read the topics back: %v", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			all = append(all, r)
			if r.Offset+1 >= left[r.Topic][r.Partition] {
				if delete(left[r.Topic], r.Partition); len(left[r.Topic]) == 0 {
					delete(left, r.Topic)
				}
			}
		})
	}
	return all
}

// header returns the value of a record's header, and whether there is one.
func header(r *kgo.Record, name string) (string, bool) {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value), true
		}
	}
	return "", false
}

// readBinary reads a record as a consumer does that knows CloudEvents only.
func readBinary(t *testing.T, r *kgo.Record) sinktest.Record {
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

// ids are those of the records, with "-" for a tombstone.
func ids(records []*kgo.Record) []string {
	all := make([]string, len(records))
	for i, r := range records {
		all[i] = "-"
		if r.Value != nil {
			all[i], _ = header(r, "ce_id")
		}
	}
	return all
}
