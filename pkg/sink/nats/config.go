package nats

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/event"
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
			return &Config{SubjectPrefix: defaultPrefix, Stream: defaultStream, HistoryPerObject: defaultHistory}
		},
		Lanes: 1,
	}
}

// Config is the options of a nats sink.
type Config struct {
	// URL is one or several servers of one cluster, separated by commas:
	// "nats://a:4222,nats://b:4222"; tls:// demands TLS. It may hold a user and
	// password, or a token in the place of the user, hence the type.
	URL sink.Secret `yaml:"url"`
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
	// CredsFile (a JWT and its key), NkeyFile (a seed) and TokenFile say who
	// informd is; at most one. They are read again for every connection, an
	// nkey after the server has refused the old one.
	CredsFile string `yaml:"credsFile"`
	NkeyFile  string `yaml:"nkeyFile"`
	TokenFile string `yaml:"tokenFile"`
	TLS       TLS    `yaml:"tls"`
	// AllowPlaintext permits a password or token on a connection that need not
	// be encrypted, to a server that is not on this machine. It also permits to
	// connect, without encryption, to further servers that the first ones name;
	// otherwise only those in URL are used, unless all of them are encrypted.
	AllowPlaintext bool `yaml:"allowPlaintext"`
}

// TLS is the encryption of the connection. Setting any of it demands TLS. The
// files are read again for every connection.
type TLS struct {
	// CAFile has the certificates that the server's must be signed by, instead
	// of the system's.
	CAFile string `yaml:"caFile"`
	// CertFile and KeyFile are what informd shows to the server.
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
	// ServerName is the name in the server's certificate, if it is not the URL's.
	ServerName string `yaml:"serverName"`
}

func (t TLS) wanted() bool { return t != TLS{} }

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	problems := append(c.validateURL(), c.validateCredentials()...)
	add := func(key, format string, args ...any) {
		problems = append(problems, sink.Problem{Key: key, Message: fmt.Sprintf(format, args...)})
	}
	if err := event.ValidatePrefix(c.SubjectPrefix); err != nil {
		add("subjectPrefix", "%v", err)
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		add("tls", "certFile and keyFile go together; set both or none")
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

// validateURL never shows what it judges: there may be a password in it.
func (c *Config) validateURL() []sink.Problem {
	var problems []sink.Problem
	for i, s := range c.servers() {
		u, err := url.Parse(s)
		switch {
		case s == "":
			problems = append(problems, sink.Problem{Key: "url", Message: "is required; set it to the server's address, as in nats://nats:4222"})
		case err != nil || u.Host == "" || !knownScheme(u.Scheme):
			problems = append(problems, sink.Problem{Key: "url", Message: fmt.Sprintf(
				"server %d is not an address like nats://host:4222 or tls://host:4222 (reserved characters in a password must be percent-encoded)", i+1)})
		}
	}
	return problems
}

func knownScheme(scheme string) bool {
	switch scheme {
	case "nats", "tls", "ws", "wss":
		return true
	}
	return false
}

func (c *Config) validateCredentials() []sink.Problem {
	var ways []string
	user, exposed := false, false
	for _, s := range c.servers() {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			continue // validateURL tells
		}
		user = user || u.User != nil
		exposed = exposed || !c.encrypted(u) && !loopback(u.Hostname()) && (u.User != nil || c.TokenFile != "")
	}
	for way, used := range map[string]bool{
		"credsFile": c.CredsFile != "", "nkeyFile": c.NkeyFile != "", "tokenFile": c.TokenFile != "", "a user in url": user,
	} {
		if used {
			ways = append(ways, way)
		}
	}
	var problems []sink.Problem
	if len(ways) > 1 {
		problems = append(problems, sink.Problem{Message: "credsFile, nkeyFile, tokenFile and a user in url exclude each other; keep one"})
	}
	if exposed && !c.AllowPlaintext {
		problems = append(problems, sink.Problem{Key: "url", Message: "would send the password or token unencrypted over the network; " +
			"use tls://, credsFile or nkeyFile, or set allowPlaintext: true"})
	}
	return problems
}

// allEncrypted says whether no connection to a server in URL can be in the clear.
func (c *Config) allEncrypted() bool {
	return !slices.ContainsFunc(c.servers(), func(s string) bool {
		u, err := url.Parse(s)
		return err != nil || !c.encrypted(u)
	})
}

func (c *Config) encrypted(u *url.URL) bool {
	return c.TLS.wanted() || u.Scheme == "tls" || u.Scheme == "wss"
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// servers splits the URL. It returns at least one element.
func (c *Config) servers() []string {
	servers := strings.Split(c.URL.Reveal(), ",")
	for i := range servers {
		servers[i] = strings.TrimSpace(servers[i])
	}
	return servers
}

// Open implements [sink.Config]. It fails if a file that it names cannot be
// read, and does not wait for the server.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	if _, err := c.clientOptions(env); err != nil {
		return nil, err
	}
	l := newLink(env.Logger, func() (client.Options, error) { return c.clientOptions(env) })
	if !c.JetStream {
		return &coreSink{link: l, prefix: c.SubjectPrefix}, nil
	}
	return newStreamSink(l, c.SubjectPrefix, env.Cluster, c.streamConfig()), nil
}
