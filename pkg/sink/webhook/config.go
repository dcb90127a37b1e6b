package webhook

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

const (
	// Type is the value of `type:` for this sink.
	Type = "webhook"

	// lanes is how many requests are in flight at a time: a request takes a
	// round trip, and endpoints have no order over all objects.
	lanes    = 8
	maxBatch = 1000
)

// Driver returns the webhook sink type.
func Driver() sink.Driver {
	return sink.Driver{
		Type: Type,
		New: func() sink.Config {
			return &Config{Options: endpoint.Defaults(), Format: sink.FormatCloudEvents, Batch: 1}
		},
		Lanes:  lanes,
		Remote: true,
	}
}

// Config is the options of a webhook sink.
type Config struct {
	endpoint.Options `yaml:",inline"`

	// Format is "cloudevents", "binary" or "raw".
	Format  sink.Format `yaml:"format" enum:"cloudevents,binary,raw"`
	Signing Signing     `yaml:"signing"`
	// Batch is the largest number of events in one request.
	Batch int `yaml:"batch"`
	// BlockPrivateAddresses refuses endpoints that are not on the public Internet,
	// by the address of each connection.
	BlockPrivateAddresses bool `yaml:"blockPrivateAddresses"`
}

// Signing signs requests as Standard Webhooks defines it.
type Signing struct {
	// KeyFile holds the signing keys, one per line: "whsec_" and 24 to 64 bytes in base64.
	// Empty lines and lines that begin with # are ignored. Default: requests are not signed.
	KeyFile string `yaml:"keyFile"`
}

// kind is what distinguishes a webhook from other sinks over HTTP.
func (c *Config) kind() endpoint.Kind {
	return endpoint.Kind{
		Name: "a webhook", Example: "https://example.com/events", Login: "headers, auth and signing.keyFile",
		Address: "check url, the endpoint must accept POST requests",
		Reserved: func(header string) bool {
			attribute := c.Format != sink.FormatCloudEvents && strings.HasPrefix(header, "Ce-")
			return attribute || strings.HasPrefix(header, "Webhook-")
		},
		WrongURL: func(u *url.URL) string {
			address, err := netip.ParseAddr(u.Hostname())
			if kind := privateKind(address); err == nil && kind != "" && c.BlockPrivateAddresses {
				return "has " + kind + ", which blockPrivateAddresses refuses; remove one of them"
			}
			return ""
		},
	}
}

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	problems := c.Check(c.kind())
	if c.Batch < 1 || c.Batch > maxBatch {
		problems.Add("batch", "must be between 1 and %d", maxBatch)
	}
	switch c.Format {
	case sink.FormatCloudEvents:
	case sink.FormatBinary, sink.FormatRaw:
		if c.Batch > 1 {
			problems.Add("batch", "must be 1 with format: %s, where a request has the attributes of one event as headers; "+
				"set it to 1 or use format: %s", c.Format, sink.FormatCloudEvents)
		}
	default:
		problems.Add("format", "%q is not a format; use %s (the whole event as the body), %s (attributes as headers) or %s (the bare object as the body)",
			c.Format, sink.FormatCloudEvents, sink.FormatBinary, sink.FormatRaw)
	}
	return problems
}

// Open implements [sink.Config]. It fails if a file that a key names cannot be read
// or has the wrong content.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	s, err := c.webhook(env)
	if err != nil {
		return nil, err
	}
	if _, err := s.signer.secrets(); err != nil {
		return nil, err
	}
	return s, s.Endpoint.Open(lanes, func(transport *http.Transport, dialer *net.Dialer) {
		if c.BlockPrivateAddresses {
			dialer.Control, transport.Proxy = refusePrivate, refuseProxy(transport.Proxy)
		}
	})
}

// webhook makes a sink that makes requests and sends none.
func (c *Config) webhook(env sink.Env) (*webhook, error) {
	e, err := endpoint.New(&c.Options, env, c.kind())
	return &webhook{Endpoint: e, config: c, signer: signer{file: c.Signing.KeyFile}}, err
}
