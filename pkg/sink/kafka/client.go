package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// dialTimeout bounds the making of a connection to one broker.
	dialTimeout = 5 * time.Second
	// requestTimeout bounds one request about topics, with its retries.
	requestTimeout = 10 * time.Second
	requestRetries = 2
	// appendTimeout is how long a leader may wait for its replicas, and
	// answerTimeout how much longer for the answer, before the connection counts
	// as dead.
	appendTimeout = 10 * time.Second
	answerTimeout = 5 * time.Second
	// idleTimeout is below what brokers, and what stands between, allow.
	idleTimeout = 5 * time.Minute
	// metadataPause is the least between two looks at who leads a partition.
	metadataPause = 250 * time.Millisecond
	// recordRetries is how often the client repeats what a broker has refused for
	// a reason that passes, within some 5 seconds, before Write tells of it.
	recordRetries = 5
	// maxRecord is the most that a record may have, before compression, to be
	// tried at all. What a topic takes the broker decides.
	maxRecord = 32 << 20
)

// client makes the client of franz-go. It connects when it is used.
func (c *Config) client(name string, f *failures) (*kgo.Client, error) {
	addresses, err := c.addresses()
	if err != nil {
		return nil, err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(addresses...),
		kgo.ClientID(name),
		kgo.Dialer(c.dial),
		kgo.WithHooks(f),
		kgo.DisableClientMetrics(),
		kgo.ConnIdleTimeout(idleTimeout),
		kgo.RequestTimeoutOverhead(answerTimeout),
		kgo.RequestRetries(requestRetries),
		kgo.RetryTimeout(requestTimeout),
		kgo.MetadataMinAge(metadataPause),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProduceRequestTimeout(appendTimeout),
		kgo.RecordRetries(recordRetries),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerBatchCompression(codecs()[c.Compression]),
		kgo.ProducerBatchMaxBytes(maxRecord),
		kgo.ProducerLinger(0),
	}
	login, err := mechanism(c.Auth)
	if err != nil {
		return nil, err
	}
	if login != nil {
		options = append(options, kgo.SASL(login))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// failures remembers why the last connection could not be made, which the client
// tells nobody who waits for a record. It may be used concurrently.
type failures struct {
	mu   sync.Mutex
	last error
}

// OnBrokerConnect implements the client's hook.
func (f *failures) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = err
}

// reason is nil if the last attempt worked.
func (f *failures) reason() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return explain(f.last, "")
}

// ensure makes sure that the topic exists, or creates it. Nothing may be on its way.
func (s *producer) ensure(ctx context.Context, topic string) error {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// The client does not listen to the context while it greets a broker.
	closed := make(chan struct{})
	stop := context.AfterFunc(limited, func() {
		defer close(closed)
		s.client.Close()
	})
	id, err := s.look(limited, topic)
	if errors.Is(err, kerr.UnknownTopicOrPartition) && !s.create.Never {
		id, err = s.make(limited, topic)
	}
	if !stop() {
		<-closed
		s.client = nil
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = fmt.Errorf("no answer within %v", requestTimeout)
		if reason := s.failures.reason(); reason != nil {
			err = fmt.Errorf("%w: %w", err, reason)
		}
	}
	if err != nil {
		return fmt.Errorf("find topic %s: %w", topic, explain(err, topic)) // of the topic, not of a record
	}
	s.known[topic] = struct{}{}
	s.identify(topic, id)
	return nil
}

// topicID tells a topic from a later one of the same name. Brokers before Kafka 2.8 have none:
// then it is zero.
type topicID = [16]byte

// identify reports the identity of the single topic. If the sink has several, it warns of one
// that somebody has created again.
func (s *producer) identify(topic string, id topicID) {
	if id == (topicID{}) { // unknown
		if _, known := s.ids[topic]; !known && s.found != nil {
			s.identity = topic
			s.found(s.identity)
		}
		return
	}
	was, seen := s.ids[topic]
	s.ids[topic] = id
	if seen && was != id {
		s.forgetOffsets(topic)
	}
	switch {
	case s.found != nil:
		s.identity = fmt.Sprintf("%s %x", topic, id)
		s.found(s.identity)
	case seen && was != id:
		s.logger.Warn("topic created again; it lacks earlier events (run informd resnapshot --sink)", slog.String("topic", topic))
	}
}

// look returns the id of a topic that exists.
func (s *producer) look(ctx context.Context, topic string) (topicID, error) {
	request := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &topic
	request.Topics = append(request.Topics, asked)
	request.AllowAutoTopicCreation = false
	answer, err := request.RequestWith(ctx, s.client)
	if err != nil {
		return topicID{}, err
	}
	if len(answer.Topics) != 1 {
		return topicID{}, fmt.Errorf("the broker answers with %d topics instead of 1", len(answer.Topics))
	}
	return answer.Topics[0].TopicID, kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

// make creates a topic and returns its id.
func (s *producer) make(ctx context.Context, topic string) (topicID, error) {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = int32(requestTimeout / time.Millisecond)
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic = topic
	wanted.NumPartitions, wanted.ReplicationFactor = -1, -1 // the brokers' defaults
	if s.create.Partitions > 0 {
		wanted.NumPartitions = int32(s.create.Partitions)
	}
	if s.create.Replicas > 0 {
		wanted.ReplicationFactor = int16(s.create.Replicas)
	}
	if s.create.Compact {
		policy := kmsg.NewCreateTopicsRequestTopicConfig()
		compact := "compact"
		policy.Name, policy.Value = "cleanup.policy", &compact
		wanted.Configs = append(wanted.Configs, policy)
	}
	request.Topics = append(request.Topics, wanted)
	answer, err := request.RequestWith(ctx, s.client)
	if err != nil {
		return topicID{}, fmt.Errorf("create it: %w", err)
	}
	if len(answer.Topics) != 1 {
		return topicID{}, fmt.Errorf("create it: the broker answers with %d topics instead of 1", len(answer.Topics))
	}
	made := answer.Topics[0]
	switch err := kerr.ErrorForCode(made.ErrorCode); {
	case errors.Is(err, kerr.TopicAlreadyExists): // another client was faster
		return s.look(ctx, topic)
	case err != nil && made.ErrorMessage != nil:
		return topicID{}, fmt.Errorf("create it: %w: %s", err, *made.ErrorMessage)
	case err != nil:
		return topicID{}, fmt.Errorf("create it: %w", err)
	}
	s.logger.Info("created the topic; set create to change its partitions, or to false to create none",
		slog.String("topic", topic), slog.Int("partitions", int(made.NumPartitions)))
	return made.TopicID, nil
}
