package kafka

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/informd/informd/pkg/sink"
)

const (
	// Type is the value of `type:` that stands for this sink.
	Type = "kafka"

	formatBinary      = "binary"
	formatCloudEvents = "cloudevents"

	compressionNone = "none"

	defaultPort = "9092"
)

// Driver returns the kafka sink type. It has one lane: the producer sends to all
// partitions at the same time by itself.
func Driver() sink.Driver {
	return sink.Driver{
		Type: Type,
		New: func() sink.Config {
			return &Config{Tombstones: true, Format: formatBinary, Compression: compressionNone}
		},
		Lanes:  1,
		Remote: true,
	}
}

// Config is the options of a kafka sink.
type Config struct {
	// Brokers are some brokers of one cluster, "host" or "host:port", from which
	// the others are learned.
	Brokers []string `yaml:"brokers"`
	// Topic is a name, or a pattern with {cluster}, {group} and {resource}.
	Topic string `yaml:"topic"`
	// CreateTopics says how topics are made that do not exist. Unless it is set,
	// none are.
	CreateTopics CreateTopics `yaml:"createTopics"`
	// Tombstones says whether each deletion is followed by a record with a null
	// value.
	Tombstones bool `yaml:"tombstones"`
	// Format is how an event becomes a record: binary, or cloudevents, the whole event as
	// JSON.
	Format string `yaml:"format" enum:"binary,cloudevents"`
	// Compression is of batches of records: none, gzip, snappy, lz4 or zstd.
	Compression string `yaml:"compression"`
	SASL        SASL   `yaml:"sasl"`
	TLS         TLS    `yaml:"tls"`
	// AllowPlaintext permits a password or token on a connection without TLS to a
	// broker that is not on this machine, and events without a warning.
	AllowPlaintext bool `yaml:"allowPlaintext"`
}

// CreateTopics is what a topic that the sink creates is like.
type CreateTopics struct {
	// Partitions is at least 1; 0 means that no topics are created.
	Partitions int `yaml:"partitions"`
	// Replicas is how many copies there are; 0 is the brokers' default.
	Replicas int `yaml:"replicas"`
	// Compact makes Kafka keep the last record of every key, and drop what is
	// before it; otherwise the brokers' default holds.
	Compact bool `yaml:"compact"`
}

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	problems := slices.Concat(c.validateBrokers(), c.validateSASL())
	add := func(key, format string, args ...any) {
		problems = append(problems, sink.Problem{Key: key, Message: fmt.Sprintf(format, args...)})
	}
	if _, err := parsePattern(c.Topic); err != nil {
		add("topic", "%v", err)
	}
	if c.Format != formatBinary && c.Format != formatCloudEvents {
		add("format", "%q is neither binary nor cloudevents", c.Format)
	}
	if codecs := codecs(); !slices.Contains(slices.Collect(maps.Keys(codecs)), c.Compression) {
		add("compression", "%q is none of %s", c.Compression, strings.Join(slices.Sorted(maps.Keys(codecs)), ", "))
	}
	switch create := c.CreateTopics; {
	case create.Partitions < 0 || create.Partitions > maxPartitions:
		add("createTopics.partitions", "must be between 1 and %d", maxPartitions)
	case create.Partitions == 0 && create != CreateTopics{}:
		add("createTopics", "partitions is required: without it no topics are created")
	}
	if replicas := c.CreateTopics.Replicas; replicas < 0 || replicas > maxReplicas {
		add("createTopics.replicas", "must be between 1 and %d, or 0 for the brokers' default", maxReplicas)
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		add("tls", "certFile and keyFile go together; set both or none")
	}
	return problems
}

// validateBrokers never shows what it judges: somebody may have put a password
// where it would go in a URL.
func (c *Config) validateBrokers() []sink.Problem {
	if len(c.Brokers) == 0 {
		return []sink.Problem{{Key: "brokers", Message: "is required; set it to addresses of brokers, as in [kafka-1:9092, kafka-2:9092]"}}
	}
	var problems []sink.Problem
	for i, broker := range c.Brokers {
		if _, _, err := splitAddress(broker); err != nil {
			problems = append(problems, sink.Problem{
				Key:     fmt.Sprintf("brokers[%d]", i),
				Message: "is not the address of a broker: host:port without a scheme, as in kafka-1:9092; TLS and credentials have keys of their own",
			})
		}
	}
	return problems
}

// splitAddress splits host:port, where the port is Kafka's unless there is one.
func splitAddress(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		host, port, err = net.SplitHostPort(net.JoinHostPort(strings.Trim(address, "[]"), defaultPort))
	}
	if err != nil {
		return "", "", err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if strings.Contains(host, ":") && net.ParseIP(host) == nil || host == "" || strings.ContainsAny(host, "/@,[] \t\n") || err != nil || number == 0 {
		return "", "", fmt.Errorf("split address: not host:port")
	}
	return host, port, nil
}

// addresses are the brokers in the form host:port.
func (c *Config) addresses() ([]string, error) {
	all := make([]string, len(c.Brokers))
	for i, broker := range c.Brokers {
		host, port, err := splitAddress(broker)
		if err != nil {
			return nil, fmt.Errorf("brokers[%d] is not the address of a broker", i)
		}
		all[i] = net.JoinHostPort(host, port)
	}
	return all, nil
}

// codecs maps the values of compression to what the client calls them.
func codecs() map[string]kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		compressionNone: kgo.NoCompression(),
		"gzip":          kgo.GzipCompression(),
		"snappy":        kgo.SnappyCompression(),
		"lz4":           kgo.Lz4Compression(),
		"zstd":          kgo.ZstdCompression(),
	}
}

// Open implements [sink.Config]. It fails if a file that it names cannot be read
// or has not what it should, and does not wait for the brokers.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	pattern, err := parsePattern(c.Topic)
	if err != nil {
		return nil, fmt.Errorf("topic %w", err)
	}
	if _, err := c.TLS.config(); err != nil {
		return nil, err
	}
	if err := c.SASL.check(); err != nil {
		return nil, err
	}
	s := &producer{
		logger:     env.Logger,
		connect:    func(f *failures) (*kgo.Client, error) { return c.client("informd/"+env.Cluster+"/"+env.Name, f) },
		pattern:    pattern,
		create:     c.CreateTopics,
		tombstones: c.Tombstones,
		structured: c.Format == formatCloudEvents,
		known:      map[string]struct{}{},
	}
	if s.client, err = s.connect(&s.failures); err != nil {
		return nil, err
	}
	return s, nil
}
