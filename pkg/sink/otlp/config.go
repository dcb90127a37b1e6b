package otlp

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

const (
	// Type is the value of `type:` for this sink.
	Type = "otlp"
	// lanes is how many requests are in flight at a time. A request has up to 256 events.
	lanes = 4
	// defaultMaxRequestBytes is half of what gRPC servers accept by default.
	defaultMaxRequestBytes = 2 * sink.MiB
	minMaxRequestBytes     = 4 * sink.KiB

	logsPath   = "/v1/logs"
	exportPath = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
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
			return &Config{Options: endpoint.Defaults(), Protocol: HTTP, Shape: ShapeEvent, MaxRequestBytes: defaultMaxRequestBytes}
		},
		Lanes:  lanes,
		Remote: true,
	}
}

// Config is the options of an otlp sink.
type Config struct {
	endpoint.Options `yaml:",inline"`

	// Protocol is [HTTP] (usually port 4318; informd adds /v1/logs to url) or [GRPC] (usually
	// port 4317; headers are its metadata).
	Protocol Protocol `yaml:"protocol" enum:"http,grpc"`
	// Shape is the form of the log records: [ShapeEvent], or [ShapeObjects], that of the
	// Collector's k8sobjects receiver in watch mode.
	Shape Shape `yaml:"shape" enum:"event,k8sobjects"`
	// MaxRequestBytes is the largest size of a request before compression. A larger event is
	// sent alone.
	MaxRequestBytes sink.ByteSize `yaml:"maxRequestBytes"`
}

// kind is what distinguishes an otlp sink from others over HTTP.
func (c *Config) kind() endpoint.Kind {
	return endpoint.Kind{
		Name: "an otlp sink", Example: cmp.Or(map[Protocol]string{GRPC: "https://collector:4317"}[c.Protocol], "https://collector:4318"),
		Address: "check url and protocol: the endpoint must take logs, over http usually at port 4318, over grpc at 4317",
		Login:   "headers and auth", Reserved: func(header string) bool { return strings.HasPrefix(header, "Grpc-") },
		WrongURL: func(u *url.URL) string {
			switch {
			case c.Protocol == GRPC && (strings.Trim(u.Path, "/") != "" || u.RawQuery != ""):
				return "has a path or a query, which gRPC does not take; write the scheme, the host and the port only, as in https://collector:4317"
			case strings.HasSuffix(strings.TrimRight(u.Path, "/"), logsPath):
				return "ends in " + logsPath + ", which informd adds; remove it"
			}
			return ""
		},
	}
}

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	problems := c.Check(c.kind())
	if c.Protocol != HTTP && c.Protocol != GRPC {
		problems.Add("protocol", "%q is not a protocol; use %s or %s", c.Protocol, HTTP, GRPC)
	}
	if c.Shape != ShapeEvent && c.Shape != ShapeObjects {
		problems.Add("shape", "%q is not a shape; use %s, or %s for the records of the Collector's k8sobjects receiver", c.Shape, ShapeEvent, ShapeObjects)
	}
	if c.MaxRequestBytes < minMaxRequestBytes {
		problems.Add("maxRequestBytes", "must be at least %s", minMaxRequestBytes)
	}
	return problems
}

// Open implements [sink.Config]. It fails if a file that a key names cannot be read
// or has the wrong content.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	s, err := c.exporter(env)
	if err != nil {
		return nil, err
	}
	return s, s.Endpoint.Open(lanes, func(transport *http.Transport, _ *net.Dialer) {
		if c.Protocol == GRPC {
			// gRPC is HTTP/2, with or without TLS.
			transport.Protocols = &http.Protocols{}
			transport.Protocols.SetHTTP2(true)
			transport.Protocols.SetUnencryptedHTTP2(true)
		}
	})
}

// exporter makes a sink that makes requests and sends none.
func (c *Config) exporter(env sink.Env) (*exporter, error) {
	e, err := endpoint.New(&c.Options, env, c.kind())
	return &exporter{Endpoint: e, config: c, logger: env.Logger, warnings: rate.Sometimes{Interval: 10 * time.Minute}}, err
}
