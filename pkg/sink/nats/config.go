package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

const (
	// Type is the value of `type:` for this sink.
	Type = "nats"

	defaultPrefix = "k8s"
	defaultStream = "INFORMD_EVENTS"
	// defaultHistory is a trade-off between the history of an object and the disk space
	// of an object that changes every second.
	defaultHistory = 16
	maxReplicas    = 5 // JetStream's own limit
)

// Driver returns the nats sink type. It has one lane: a stream has one order.
func Driver() sink.Driver {
	return sink.Driver{
		Type: Type,
		New: func() sink.Config {
			return &Config{
				Format: sink.FormatBinary, JetStream: true, SubjectPrefix: defaultPrefix, Stream: defaultStream,
				Create: defaultCreate(),
			}
		},
		Lanes:  1,
		Remote: true,
	}
}

// Config is the options of a nats sink.
type Config struct {
	// Servers are the addresses of one or more servers of one cluster, as in
	// [nats://a:4222, nats://b:4222]. An address with tls:// requires TLS. It may hold a user
	// and password, or a token in place of the user.
	Servers connection.Servers `yaml:"servers"`
	// Auth takes username with passwordFile or password, tokenFile or token, credsFile, or
	// nkeyFile. The files are read again for every connection.
	Auth connection.Auth `yaml:"auth"`
	TLS  connection.TLS  `yaml:"tls"`
	// AllowInsecureAuth permits a password or token on a connection without TLS to a server
	// on another machine, and events without a warning.
	AllowInsecureAuth bool `yaml:"allowInsecureAuth"`

	// Format is "binary", "cloudevents" or "raw".
	Format sink.Format `yaml:"format" enum:"binary,cloudevents,raw"`
	// JetStream publishes into a stream, which acknowledges each message: at least once. With
	// false informd publishes to the current subscribers only: at most once.
	JetStream bool `yaml:"jetstream"`
	// SubjectPrefix is one or more tokens that all subjects begin with.
	SubjectPrefix string `yaml:"subjectPrefix"`
	// Stream is the name of the stream.
	Stream string `yaml:"stream"`
	Create Create `yaml:"create"`
}

// Create says how informd creates the stream if it does not exist; false: informd never
// creates it, and waits until it exists. An existing stream is never changed.
type Create struct {
	// Never is the value false of the block.
	Never bool `yaml:"-"`
	// HistoryPerObject is how many events of each object the stream keeps; 0 is no limit. The
	// last event always stays, also of deleted objects.
	HistoryPerObject int `yaml:"historyPerObject"`
	// MaxAge removes older events, also the last one of an object; 0 is no limit.
	MaxAge time.Duration `yaml:"maxAge"`
	// MaxBytes limits the size of the stream; 0 is no limit. A full stream refuses events, and
	// the sink waits.
	MaxBytes sink.ByteSize `yaml:"maxBytes"`
	// Replicas is the number of replicas; 0 is 1.
	Replicas int `yaml:"replicas"`
}

// Toggle implements [sink.Toggle].
func (c *Create) Toggle(on bool) { c.Never = !on }

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	problems := sink.Problems(c.validateConnection())
	switch c.Format {
	case sink.FormatBinary, sink.FormatCloudEvents, sink.FormatRaw:
	default:
		problems.Add("format", "%q is not a format; use %s (attributes as headers), %s (the whole event as the body) "+
			"or %s (the bare object as the body)", c.Format, sink.FormatBinary, sink.FormatCloudEvents, sink.FormatRaw)
	}
	if err := validatePrefix(c.SubjectPrefix); err != nil {
		problems.Add("subjectPrefix", "%v", err)
	}
	if !c.JetStream {
		if c.Create != defaultCreate() {
			problems.Add("create", "needs a stream, and jetstream is false: remove create, or set jetstream: true")
		}
		return problems
	}
	if c.Stream == "" || strings.ContainsFunc(c.Stream, badInStreamName) {
		problems.Add("stream", "%q is not a stream name: it has at least one character, "+
			"and no white space, dots, slashes, *, > or control characters", c.Stream)
	}
	if c.Create.HistoryPerObject < 0 {
		problems.Add("create.historyPerObject", "must not be negative; 0 is no limit")
	}
	if c.Create.MaxAge < 0 {
		problems.Add("create.maxAge", "must not be negative; 0 is no limit")
	}
	if c.Create.Replicas < 0 || c.Create.Replicas > maxReplicas {
		problems.Add("create.replicas", "must be between 1 and %d", maxReplicas)
	}
	return problems
}

func defaultCreate() Create { return Create{HistoryPerObject: defaultHistory} }

func badInStreamName(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`.*>/\`, r)
}

func (c *Config) form() form { return form{prefix: c.SubjectPrefix, format: c.Format} }

// Destination implements [sink.Destined]: a stream has an identity.
func (c *Config) Destination() (name string, identified bool) {
	return c.Servers.Identity() + "/" + c.SubjectPrefix, c.JetStream
}

// Open implements [sink.Config]. It fails if a file that a key names cannot be
// read, and does not wait for the server.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	options := func() (client.Options, error) { return c.options("informd/" + env.Cluster + "/" + env.Name) }
	if _, err := options(); err != nil {
		return nil, err
	}
	l := &link{logger: env.Logger, options: options}
	if !c.JetStream {
		return &coreSink{link: l, form: c.form()}, nil
	}
	s := newStreamSink(l, c.form(), env.Cluster, c.streamConfig())
	s.create, s.found = !c.Create.Never, env.Found
	return s, nil
}

// validatePrefix checks that a configured subject prefix is one or more plain
// NATS tokens.
func validatePrefix(prefix string) error {
	for token := range strings.SplitSeq(prefix, ".") {
		if token == "" {
			return errors.New("a subject prefix is one or more tokens joined by dots; none may be empty")
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r == '*' || r == '>' || r > '~' }) || strings.HasPrefix(token, "$") {
			return fmt.Errorf("subject token %q: wildcards, white space, non-ASCII and a leading $ are not allowed", token)
		}
	}
	return nil
}
