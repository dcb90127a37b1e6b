package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

const (
	// Type is the value of `type:` for this sink.
	Type = "webhook"

	// lanes is how many requests are in flight at a time: a request takes a
	// round trip, and endpoints have no order over all objects.
	lanes          = 8
	defaultTimeout = 10 * time.Second
	maxBatch       = 1000
)

// Driver returns the webhook sink type.
func Driver() sink.Driver {
	return sink.Driver{
		Type: Type,
		New: func() sink.Config {
			return &Config{Format: CloudEvents, Compression: compress.None, Timeout: defaultTimeout, Batch: 1}
		},
		Lanes:  lanes,
		Remote: true,
	}
}

// Config is the options of a webhook sink.
type Config struct {
	// URL is the address of the endpoint. It may hold a password or a token; logs and errors
	// show only its scheme and host.
	URL sink.Secret `yaml:"url"`
	// Format is [CloudEvents], [Binary] or [Raw].
	Format Format `yaml:"format" enum:"cloudevents,binary,raw"`
	// Compression is the compression of the bodies: the content-encoding of a request.
	Compression compress.Method `yaml:"compression"`
	// Headers are added to every request.
	Headers map[string]sink.Secret `yaml:"headers"`
	Signing Signing                `yaml:"signing"`
	// Auth takes username with passwordFile or password (HTTP basic), or tokenFile or token
	// (a bearer token).
	Auth connection.Auth `yaml:"auth"`
	// Timeout limits one request with its answer.
	Timeout time.Duration `yaml:"timeout"`
	// Batch is the largest number of events in one request.
	Batch int `yaml:"batch"`
	// TLS takes caFile, certFile with keyFile, and serverName. The scheme of url turns TLS on.
	TLS connection.TLS `yaml:"tls"`
	// AllowHTTP permits http:// to an endpoint on another machine.
	AllowHTTP bool `yaml:"allowHTTP"`
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

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	problems := append(c.validateURL(), endpoint.ValidateHeaders(c.Headers, c.Auth, c.reserved)...)
	add := func(key, format string, args ...any) {
		problems = append(problems, sink.Problem{Key: key, Message: fmt.Sprintf(format, args...)})
	}
	if c.Timeout <= 0 {
		add("timeout", "must be more than 0, as in 10s")
	}
	if c.Batch < 1 || c.Batch > maxBatch {
		add("batch", "must be between 1 and %d", maxBatch)
	}
	c.validateFormat(add)
	if c.TLS.Enabled != nil && *c.TLS.Enabled {
		add("tls.enabled", "a webhook does not take this key: the scheme of url turns TLS on, as in https://example.com/events")
	}
	return slices.Concat(problems, c.validateAuth(), c.TLS.Validate())
}

// validateURL never shows the URL: it may hold a secret.
func (c *Config) validateURL() []sink.Problem {
	const example = "https://example.com/events"
	message := endpoint.WrongURL(c.URL.Reveal(), example, c.AllowHTTP)
	if message == "" && c.BlockPrivateAddresses {
		u, err := url.Parse(c.URL.Reveal())
		if err == nil && privateLiteral(u.Hostname()) != "" {
			message = "has " + privateLiteral(u.Hostname()) + ", which blockPrivateAddresses refuses; remove one of them"
		}
	}
	if message == "" {
		return nil
	}
	return []sink.Problem{{Key: "url", Message: message}}
}

func privateLiteral(host string) string {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return "" // a name
	}
	return privateKind(address)
}

// validateAuth checks that there is one credential, which HTTP can carry.
func (c *Config) validateAuth() []sink.Problem {
	problems := endpoint.ValidateAuth("a webhook", c.Auth)
	if c.Auth.Wanted() && endpoint.HasUser(c.URL.Reveal()) {
		problems = append(problems, sink.Problem{Key: "auth", Message: "url has a user already; keep one"})
	}
	return problems
}

// reserved reports whether a webhook sets a header itself, by its canonical name.
func (c *Config) reserved(name string) bool {
	return strings.HasPrefix(name, "Webhook-") || c.Format != CloudEvents && strings.HasPrefix(name, "Ce-")
}

// Destination implements [sink.Destined].
func (c *Config) Destination() (name string, identified bool) { return c.URL.Reveal(), false }

// Open implements [sink.Config]. It fails if a file that a key names cannot be read
// or has the wrong content.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	s, err := c.endpoint(env)
	if err != nil {
		return nil, err
	}
	config, err := c.TLS.Config()
	if err != nil {
		return nil, err
	}
	s.client = endpoint.NewClient(s.url, c.Timeout, lanes, config, func(transport *http.Transport, dialer *net.Dialer) {
		if c.BlockPrivateAddresses {
			dialer.Control, transport.Proxy = refusePrivate, refuseProxy(transport.Proxy)
		}
	})
	if _, err := s.signer.secrets(); err != nil {
		return nil, err
	}
	if _, err := s.credential.Header(); err != nil {
		return nil, err
	}
	return s, nil
}

// endpoint makes a sink without a client: it makes requests and sends none.
func (c *Config) endpoint(env sink.Env) (*webhook, error) {
	address, err := url.Parse(c.URL.Reveal())
	if err != nil {
		return nil, errors.New("url is not an address") // err would show it
	}
	encoder, err := compress.NewEncoder(c.Compression)
	if err != nil {
		return nil, err
	}
	return &webhook{
		config:     c,
		url:        address,
		agent:      "informd/" + env.Cluster,
		signer:     signer{file: c.Signing.KeyFile},
		encoder:    encoder,
		credential: endpoint.NewCredential(c.Auth),
	}, nil
}
