package nats

import (
	"context"
	"fmt"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/natsconn"
	"github.com/informd/informd/pkg/sink"
)

const (
	// Type is the value of `type:` that stands for this sink.
	Type = "nats"

	defaultPrefix = "events"
	defaultStream = "INFORMD_EVENTS"
	// defaultHistory is enough to see what has happened to an object, and few
	// enough for one that changes every second not to fill the disk.
	defaultHistory = 16
	maxReplicas    = 5 // JetStream's own limit
)

// Driver returns the nats sink type. It has one lane: a stream has one order.
func Driver() sink.Driver {
	return sink.Driver{
		Type: Type,
		New: func() sink.Config {
			return &Config{Format: Binary, SubjectPrefix: defaultPrefix, Stream: defaultStream, HistoryPerObject: defaultHistory}
		},
		Lanes:  1,
		Remote: true,
	}
}

// Format is what the body of a message is.
type Format string

// The formats.
const (
	// Binary is CloudEvents binary mode: the attributes are headers, the body is the
	// data.
	Binary Format = "binary"
	// CloudEvents is CloudEvents structured mode: the body is the whole event as JSON.
	CloudEvents Format = "cloudevents"
	// Raw has the headers of binary mode, and the bare object as the body.
	Raw Format = "raw"
)

// Config is the options of a nats sink.
type Config struct {
	natsconn.Config `yaml:",inline"`

	// Format is [Binary], [CloudEvents] or [Raw].
	Format Format `yaml:"format" enum:"binary,cloudevents,raw"`
	// JetStream says whether the messages go into a stream, with
	// acknowledgement, or to whoever listens.
	JetStream bool `yaml:"jetstream"`
	// SubjectPrefix is what all subjects begin with: one or more tokens.
	SubjectPrefix string `yaml:"subjectPrefix"`
	// Stream is the stream's name. It is created if it does not exist.
	Stream string `yaml:"stream"`
	// HistoryPerObject is how many events of one object a stream that is created
	// keeps, the last ones; 0 is no limit. The very last stays even when the object
	// is gone.
	HistoryPerObject int `yaml:"historyPerObject"`
	// MaxAge and MaxBytes limit a stream that is created, 0 is no limit. At
	// MaxBytes the sink waits until there is room again.
	MaxAge   time.Duration `yaml:"maxAge"`
	MaxBytes sink.ByteSize `yaml:"maxBytes"`
	// Replicas is how many copies of its own a stream that is created has; 0 is 1.
	Replicas int `yaml:"replicas"`
}

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	problems := c.Config.Validate()
	add := func(key, format string, args ...any) {
		problems = append(problems, sink.Problem{Key: key, Message: fmt.Sprintf(format, args...)})
	}
	switch c.Format {
	case Binary, CloudEvents, Raw:
	default:
		add("format", "%q is not a format; use %s (attributes as headers), %s (the whole event as the body) or %s (the bare object as the body)",
			c.Format, Binary, CloudEvents, Raw)
	}
	if err := event.ValidatePrefix(c.SubjectPrefix); err != nil {
		add("subjectPrefix", "%v", err)
	}
	if !c.JetStream {
		if c.HistoryPerObject != defaultHistory || c.MaxAge != 0 || c.MaxBytes != 0 || c.Replicas != 0 {
			add("jetstream", "historyPerObject, maxAge, maxBytes and replicas are about a stream; set jetstream: true or remove them")
		}
		return problems
	}
	if c.Stream == "" || strings.ContainsFunc(c.Stream, badInStreamName) {
		add("stream", "%q is not a stream name: it has at least one character, and no white space, dots, slashes, *, > or control characters", c.Stream)
	}
	if c.HistoryPerObject < 0 {
		add("historyPerObject", "must not be negative; 0 is no limit")
	}
	if c.MaxAge < 0 {
		add("maxAge", "must not be negative; 0 is no limit")
	}
	if c.Replicas < 0 || c.Replicas > maxReplicas {
		add("replicas", "must be between 1 and %d", maxReplicas)
	}
	return problems
}

func badInStreamName(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`.*>/\`, r)
}

func (c *Config) form() form { return form{prefix: c.SubjectPrefix, format: c.Format} }

// Publishes returns the servers' URLs, which may hold passwords, and what all
// subjects begin with.
func (c *Config) Publishes() (servers []string, prefix string) {
	return strings.Split(c.URL.Reveal(), ","), c.SubjectPrefix
}

// Open implements [sink.Config]. It fails if a file that it names cannot be
// read, and does not wait for the server.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	// The link reads the files again for every connection.
	options := func() (client.Options, error) { return c.Options("informd/" + env.Cluster + "/" + env.Name) }
	if _, err := options(); err != nil {
		return nil, err
	}
	l := newLink(env.Logger, options)
	if !c.JetStream {
		return &coreSink{link: l, form: c.form()}, nil
	}
	s := newStreamSink(l, c.form(), env.Cluster, c.streamConfig())
	s.found = env.Found
	return s, nil
}
