package otlp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

const (
	// Type is the value of `type:` for this sink.
	Type = "otlp"

	// lanes is how many requests are in flight at a time. A request has up to 256 events.
	lanes          = 4
	defaultTimeout = 10 * time.Second
	// defaultMaxRequestBytes is half of what gRPC servers accept by default.
	defaultMaxRequestBytes = 2 * sink.MiB
	minMaxRequestBytes     = 4 * sink.KiB

	// warningPause is between two warnings of the endpoint in the log.
	warningPause = 10 * time.Minute

	exampleHTTP = "https://collector:4318"
	exampleGRPC = "https://collector:4317"
	logsPath    = "/v1/logs"
	exportPath  = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
)

// Protocol is how requests are sent.
type Protocol string

// The protocols.
const (
	// HTTP is OTLP over HTTP with binary protocol buffers.
	HTTP Protocol = "http"
	// GRPC is OTLP over gRPC.
	GRPC Protocol = "grpc"
)

// Driver returns the otlp sink type.
func Driver() sink.Driver {
	return sink.Driver{
		Type: Type,
		New: func() sink.Config {
			return &Config{
				Protocol: HTTP, Shape: ShapeEvent, Compression: compress.None,
				Timeout: defaultTimeout, MaxRequestBytes: defaultMaxRequestBytes,
			}
		},
		Lanes:  lanes,
		Remote: true,
	}
}

// Config is the options of an otlp sink.
type Config struct {
	// URL is the address of the endpoint. With protocol: http, informd adds /v1/logs. It may
	// hold a password or a token; logs and errors show only its scheme and host.
	URL sink.Secret `yaml:"url"`
	// Protocol is [HTTP] (usually port 4318) or [GRPC] (usually port 4317).
	Protocol Protocol `yaml:"protocol" enum:"http,grpc"`
	// Shape is the form of the log records: [ShapeEvent], or [ShapeObjects], that of the
	// Collector's k8sobjects receiver in watch mode.
	Shape Shape `yaml:"shape" enum:"event,k8sobjects"`
	// Compression is the compression of the requests. Every Collector reads gzip.
	Compression compress.Method `yaml:"compression"`
	// Headers are added to every request. With protocol: grpc they are its metadata.
	Headers map[string]sink.Secret `yaml:"headers"`
	// Auth takes username with passwordFile or password (HTTP basic), or tokenFile or token
	// (a bearer token).
	Auth connection.Auth `yaml:"auth"`
	// Timeout limits one request with its answer.
	Timeout time.Duration `yaml:"timeout"`
	// MaxRequestBytes is the largest size of a request before compression. A larger event is
	// sent alone.
	MaxRequestBytes sink.ByteSize `yaml:"maxRequestBytes"`
	// TLS takes caFile, certFile with keyFile, and serverName. The scheme of url turns TLS on.
	TLS connection.TLS `yaml:"tls"`
	// AllowHTTP permits http:// to an endpoint on another machine.
	AllowHTTP bool `yaml:"allowHTTP"`
}

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	problems := slices.Concat(endpoint.ValidateAuth("an otlp sink", c.Auth), endpoint.ValidateHeaders(c.Headers, c.Auth, reserved), c.TLS.Validate())
	add := func(key, format string, args ...any) {
		problems = append(problems, sink.Problem{Key: key, Message: fmt.Sprintf(format, args...)})
	}
	if wrong := c.wrongURL(); wrong != "" {
		add("url", "%s", wrong)
	}
	if c.Auth.Wanted() && endpoint.HasUser(c.URL.Reveal()) {
		add("auth", "url has a user already; keep one")
	}
	if c.Protocol != HTTP && c.Protocol != GRPC {
		add("protocol", "%q is not a protocol; use %s or %s", c.Protocol, HTTP, GRPC)
	}
	if c.Shape != ShapeEvent && c.Shape != ShapeObjects {
		add("shape", "%q is not a shape; use %s, or %s for the records of the Collector's k8sobjects receiver", c.Shape, ShapeEvent, ShapeObjects)
	}
	if problem := c.Compression.Problem(); problem != "" {
		add("compression", "%s", problem)
	}
	if c.Timeout <= 0 {
		add("timeout", "must be more than 0, as in 10s")
	}
	if c.MaxRequestBytes < minMaxRequestBytes {
		add("maxRequestBytes", "must be at least %s", minMaxRequestBytes)
	}
	if c.TLS.Enabled != nil && *c.TLS.Enabled {
		add("tls.enabled", "an otlp sink does not take this key: the scheme of url turns TLS on, as in %s", exampleHTTP)
	}
	return problems
}

// wrongURL never shows the URL: it may hold a secret.
func (c *Config) wrongURL() string {
	address, example := c.URL.Reveal(), exampleHTTP
	if c.Protocol == GRPC {
		example = exampleGRPC
	}
	if wrong := endpoint.WrongURL(address, example, c.AllowHTTP); wrong != "" {
		return wrong
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return "is not an address like " + example
	case c.Protocol == GRPC && (strings.Trim(u.Path, "/") != "" || u.RawQuery != ""):
		return "has a path or a query, which gRPC does not take; write the scheme, the host and the port only, as in " + example
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), logsPath):
		return "ends in " + logsPath + ", which informd adds; remove it"
	}
	return ""
}

// reserved reports whether the sink sets a header itself, by its canonical name.
func reserved(name string) bool { return strings.HasPrefix(name, "Grpc-") }

// Destination implements [sink.Destined].
func (c *Config) Destination() (name string, identified bool) { return c.URL.Reveal(), false }

// Open implements [sink.Config]. It fails if a file that a key names cannot be read
// or has the wrong content.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	s, err := c.exporter(env)
	if err != nil {
		return nil, err
	}
	config, err := c.TLS.Config()
	if err != nil {
		return nil, err
	}
	if _, err := s.credential.Header(); err != nil {
		return nil, err
	}
	s.client = endpoint.NewClient(s.url, c.Timeout, lanes, config, func(transport *http.Transport, _ *net.Dialer) {
		if c.Protocol == GRPC {
			// gRPC is HTTP/2, with or without TLS.
			transport.Protocols = &http.Protocols{}
			transport.Protocols.SetHTTP2(true)
			transport.Protocols.SetUnencryptedHTTP2(true)
		}
	})
	return s, nil
}

// exporter makes a sink without a client: it makes requests and sends none.
func (c *Config) exporter(env sink.Env) (*exporter, error) {
	address, err := url.Parse(c.URL.Reveal())
	if err != nil {
		return nil, errors.New("url is not an address") // err would show it
	}
	encoder, err := compress.NewEncoder(c.Compression)
	if err != nil {
		return nil, err
	}
	target := address.JoinPath(logsPath)
	if c.Protocol == GRPC {
		target = address.JoinPath(exportPath)
	}
	return &exporter{
		config:     c,
		url:        address,
		target:     target.String(),
		agent:      "informd/" + env.Cluster,
		logger:     env.Logger,
		encoder:    encoder,
		credential: endpoint.NewCredential(c.Auth),
		warnings:   rate.Sometimes{Interval: warningPause},
	}, nil
}
