package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Leader returns the id of the broker that leads a partition, or an error if none does.
func (c *Cluster) Leader(ctx context.Context, topic string, partition int32) (int32, error) {
	p, err := c.describe(ctx, topic, partition)
	return p.Leader, err
}

func (c *Cluster) describe(ctx context.Context, topic string, partition int32) (
	none kmsg.MetadataResponseTopicPartition, err error,
) {
	request := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &topic
	request.Topics = append(request.Topics, asked)
	answer, err := ask(ctx, c, request.RequestWith)
	if err != nil {
		return none, err
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if p.Partition == partition {
				return p, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return none, fmt.Errorf("no partition %d of topic %s", partition, topic)
}

// Controller returns the id of the broker that is the active controller.
func (c *Cluster) Controller(ctx context.Context) (int32, error) {
	request := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	request.Topics = append(request.Topics, topic)
	answer, err := ask(ctx, c, request.RequestWith)
	switch {
	case err != nil:
		return 0, err
	case len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1:
		return 0, errors.New("describe the quorum: the answer has another form")
	}
	p := answer.Topics[0].Partitions[0]
	return p.LeaderID, kerr.ErrorForCode(p.ErrorCode)
}

// ask sends one request over a connection of its own.
func ask[R any](ctx context.Context, c *Cluster, send func(context.Context, kmsg.Requestor) (R, error)) (R, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addresses()...), kgo.DisableClientMetrics())
	if err != nil {
		var none R
		return none, err
	}
	defer client.Close()
	return send(ctx, client)
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
	answer, err := ask(ctx, c, request.RequestWith)
	switch {
	case err != nil:
		return err
	case len(answer.Topics) != 1:
		return fmt.Errorf("create topic %s: the answer has %d topics", topic, len(answer.Topics))
	}
	return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

// InSync returns the ids of the brokers that are in sync with the leader of a partition.
func (c *Cluster) InSync(ctx context.Context, topic string, partition int32) ([]int32, error) {
	p, err := c.describe(ctx, topic, partition)
	return p.ISR, err
}
