// Command testbroker is a Kafka broker for the tests of the module in test/, which cannot
// import the fake one. It prints one JSON object per line: first the address of the broker,
// then each record of each topic. It ends on SIGTERM.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// newTopics is how often the reader looks for topics that were made since.
const newTopics = 200 * time.Millisecond

// line is what is printed: Broker alone, or a record.
type line struct {
	Broker  string            `json:"broker,omitempty"`
	Topic   string            `json:"topic,omitempty"`
	Key     []byte            `json:"key,omitempty"`
	Value   []byte            `json:"value"` // null of a tombstone
	Headers map[string][]byte `json:"headers,omitempty"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return fmt.Errorf("start broker: %w", err)
	}
	defer broker.Close()
	reader, err := kgo.NewClient(
		kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeRegex(), kgo.ConsumeTopics(".*"), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(newTopics/2), kgo.MetadataMaxAge(newTopics), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return fmt.Errorf("make reader: %w", err)
	}
	defer reader.Close()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(line{Broker: broker.ListenAddrs()[0]}); err != nil {
		return err
	}
	for {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read records: %w", err)
		}
		for r := range fetches.RecordsAll() {
			l := line{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: make(map[string][]byte)}
			for _, h := range r.Headers {
				l.Headers[h.Key] = h.Value
			}
			if err := out.Encode(l); err != nil {
				return err
			}
		}
	}
}
