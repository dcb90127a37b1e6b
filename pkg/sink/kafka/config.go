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

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

const (
	// Type is the value of `type:` for this sink.
	Type = "kafka"

	compressionNone = "none"

	defaultPort = "9092"
)

// Driver returns the kafka sink type. It has one lane: the producer sends to all
// partitions at the same time by itself.
func Driver() sink.Driver {
	return sink.Driver{
		Type: Type,
		New: func() sink.Config {
			return &Config{Tombstones: true, Format: sink.FormatBinary, Compression: compressionNone}
		},
		Lanes:  1,
		Remote: true,
	}
}

// Config is the options of a kafka sink.
type Config struct {
	// Servers are the addresses of some brokers of one cluster, "host" or "host:port". They
	// announce the others.
	Servers connection.Servers `yaml:"servers"`
	// Topic is a name, or a pattern with {cluster}, {group} and {resource}.
	Topic  string `yaml:"topic"`
	Create Create `yaml:"create"`
	// Tombstones adds a record with a null value after each deletion.
	Tombstones bool `yaml:"tombstones"`
	// Format is the form of a record: binary, or cloudevents, the whole event as
	// JSON.
	Format sink.Format `yaml:"format" enum:"binary,cloudevents"`
	// Compression is the compression of batches: none, gzip, snappy, lz4 or zstd.
	Compression string `yaml:"compression"`
	// Auth takes mechanism with username and passwordFile or password, or mechanism:
	// oauthbearer with tokenFile or token. The files are read again for every connection.
	Auth connection.Auth `yaml:"auth"`
	TLS  connection.TLS  `yaml:"tls"`
	// AllowInsecureAuth permits a password or token on a connection without TLS to a
	// broker on another machine, and events without a warning.
	AllowInsecureAuth bool `yaml:"allowInsecureAuth"`
}

// Create says how informd creates a topic that does not exist; false: informd creates none,
// and waits until the topic exists. An existing topic is never changed.
type Create struct {
	// Never is the value false of the block.
	Never bool `yaml:"-"`
	// Partitions is the number of partitions; 0 is the brokers' default.
	Partitions int `yaml:"partitions"`
	// Replicas is the number of replicas; 0 is the brokers' default.
	Replicas int `yaml:"replicas"`
	// Compact sets cleanup.policy=compact: Kafka keeps the last record of each key. Default:
	// the brokers' policy.
	Compact bool `yaml:"compact"`
}

// Toggle implements [sink.Toggle].
func (c *Create) Toggle(on bool) { c.Never = !on }

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	problems := sink.Problems(slices.Concat(
		c.Servers.Validate("kafka-1:9092, kafka-2:9092", wrongAddress), c.validateAuth(), c.TLS.Validate()))
	if _, err := parsePattern(c.Topic); err != nil {
		problems.Add("topic", "%v", err)
	}
	if c.Format != sink.FormatBinary && c.Format != sink.FormatCloudEvents {
		problems.Add("format", "%q is not a format; use binary or cloudevents", c.Format)
	}
	if _, ok := codecs()[c.Compression]; !ok {
		all := strings.Join(slices.Sorted(maps.Keys(codecs())), ", ")
		problems.Add("compression", "%q is not a compression; use one of %s", c.Compression, all)
	}
	if partitions := c.Create.Partitions; partitions < 0 || partitions > maxPartitions {
		problems.Add("create.partitions", "must be between 1 and %d, or 0 for the brokers' default", maxPartitions)
	}
	if replicas := c.Create.Replicas; replicas < 0 || replicas > maxReplicas {
		problems.Add("create.replicas", "must be between 1 and %d, or 0 for the brokers' default", maxReplicas)
	}
	return problems
}

// wrongAddress never shows the address: a user may have put a password into it, as into
// a URL.
func wrongAddress(address string) string {
	if _, _, err := connection.HostPort(address, defaultPort); err != nil {
		return "is not the address of a broker: host:port without a scheme, as in kafka-1:9092; the keys tls and auth set TLS and credentials"
	}
	return ""
}

// addresses are the brokers in the form host:port.
func (c *Config) addresses() ([]string, error) {
	all := make([]string, len(c.Servers))
	for i, broker := range c.Servers.Reveal() {
		host, port, err := connection.HostPort(broker, defaultPort)
		if err != nil {
			return nil, fmt.Errorf("%s is not the address of a broker", c.Servers.Key(i))
		}
		all[i] = net.JoinHostPort(host, strconv.Itoa(int(port)))
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

// Destination implements [sink.Destined]. A single topic has an identity. Several topics have
// none: a new topic would change it.
func (c *Config) Destination() (name string, identified bool) {
	p, err := parsePattern(c.Topic)
	return c.Servers.Identity() + "/" + c.Topic, err == nil && p.single()
}

// Open implements [sink.Config]. It fails if a file that a key names cannot be read
// or has the wrong content, and does not wait for the brokers.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	pattern, err := parsePattern(c.Topic)
	if err != nil {
		return nil, fmt.Errorf("topic %w", err)
	}
	if _, err := c.TLS.Config(); err != nil {
		return nil, err
	}
	if err := checkFiles(c.Auth); err != nil {
		return nil, err
	}
	s := &producer{
		logger:     env.Logger,
		connect:    func(f *failures) (*kgo.Client, error) { return c.client("informd/"+env.Cluster+"/"+env.Name, f) },
		pattern:    pattern,
		create:     c.Create,
		tombstones: c.Tombstones,
		structured: c.Format == sink.FormatCloudEvents,
		known:      map[string]struct{}{},
		ids:        map[string]topicID{},
		ends:       map[partition]int64{},
	}
	if pattern.single() {
		s.found = env.Found
	}
	if s.client, err = s.connect(&s.failures); err != nil {
		return nil, err
	}
	return s, nil
}
