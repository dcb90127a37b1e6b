package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Partitions returns the partitions of a topic, without order, or the error of one of them: it
// has no leader, for example.
func (c *Cluster) Partitions(ctx context.Context, topic string) ([]kmsg.MetadataResponseTopicPartition, error) {
	request := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &topic
	request.Topics = append(request.Topics, asked)
	answer, err := ask[*kmsg.MetadataResponse](ctx, c, request)
	switch {
	case err != nil:
		return nil, err
	case len(answer.Topics) != 1:
		return nil, fmt.Errorf("describe topic %s: the answer has %d topics", topic, len(answer.Topics))
	}
	errs := []error{kerr.ErrorForCode(answer.Topics[0].ErrorCode)}
	for _, p := range answer.Topics[0].Partitions {
		errs = append(errs, kerr.ErrorForCode(p.ErrorCode))
	}
	return answer.Topics[0].Partitions, errors.Join(errs...)
}

// Controller returns the id of the broker that is the active controller.
func (c *Cluster) Controller(ctx context.Context) (int32, error) {
	request := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	request.Topics = append(request.Topics, topic)
	answer, err := ask[*kmsg.DescribeQuorumResponse](ctx, c, request)
	switch {
	case err != nil:
		return 0, err
	case len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1:
		return 0, errors.New("describe the quorum: the answer has another form")
	}
	p := answer.Topics[0].Partitions[0]
	return p.LeaderID, kerr.ErrorForCode(p.ErrorCode)
}

// ask sends a request to the broker that answered last, or to the next one that answers: some
// may be frozen.
func ask[R kmsg.Response](ctx context.Context, c *Cluster, request kmsg.Request) (answer R, err error) {
	const patience = time.Second
	for range c.brokers {
		b := c.brokers[c.answers.Load()%int64(len(c.brokers))]
		limited, cancel := context.WithTimeout(ctx, patience)
		got, failed := b.send(limited, request)
		cancel()
		if failed == nil {
			if answer, ok := got.(R); ok {
				return answer, nil
			}
			return answer, fmt.Errorf("ask %s: the answer is a %T", b.Name(), got)
		}
		err = errors.Join(err, fmt.Errorf("ask %s: %w", b.Name(), failed))
		c.answers.Add(1)
	}
	return answer, err
}

// send sends one request to this broker, over a connection of its own.
func (b *Broker) send(ctx context.Context, request kmsg.Request) (kmsg.Response, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Address()), kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.SeedBrokers()[0].Request(ctx, request)
}

// CreateTopic creates a topic of one partition whose replicas are the brokers with these ids;
// the first one leads.
func (c *Cluster) CreateTopic(ctx context.Context, topic string, replicas []int32, properties map[string]string) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, -1, -1
	wanted.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: replicas}}
	for name, value := range properties {
		property := kmsg.NewCreateTopicsRequestTopicConfig()
		property.Name, property.Value = name, &value
		wanted.Configs = append(wanted.Configs, property)
	}
	request.Topics = append(request.Topics, wanted)
	answer, err := ask[*kmsg.CreateTopicsResponse](ctx, c, request)
	switch {
	case err != nil:
		return err
	case len(answer.Topics) != 1:
		return fmt.Errorf("create topic %s: the answer has %d topics", topic, len(answer.Topics))
	}
	return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}
