package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
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
)

const (
	// Type is the value of `type:` for this sink.
	Type = "webhook"

	// lanes is how many requests are in flight at a time: a request takes a
	// round trip, and endpoints have no order over all objects.
	lanes          = 8
	defaultTimeout = 10 * time.Second
	maxBatch       = 1000
	// maxHeaderBytes is the limit of the headers of an answer.
	maxHeaderBytes = 64 << 10
	idleTimeout    = 90 * time.Second
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
	problems := append(c.validateURL(), c.validateHeaders()...)
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
	message := ""
	u, err := url.Parse(c.URL.Reveal())
	switch {
	case c.URL.Reveal() == "":
		message = "is required: the address of the endpoint, as in https://example.com/events"
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		message = "is not an address like https://example.com/events"
	case u.Fragment != "":
		message = "has a fragment (#...), which is never sent; remove it"
	case u.Scheme == "http" && !connection.Loopback(u.Hostname()) && !c.AllowHTTP:
		message = "would send events without TLS over the network; use https://, or set allowHTTP: true"
	case c.BlockPrivateAddresses && privateLiteral(u.Hostname()) != "":
		message = "has " + privateLiteral(u.Hostname()) + ", which blockPrivateAddresses refuses; remove one of them"
	default:
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

func (c *Config) urlHasUser() bool {
	u, err := url.Parse(c.URL.Reveal())
	return err == nil && u.User != nil
}

func (c *Config) validateHeaders() []sink.Problem {
	var problems []sink.Problem
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		value, message := c.Headers[name], ""
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case name == "" || strings.ContainsFunc(name, badInName):
			message = "is not a header name: letters, digits and !#$%&'*+-.^_`|~ only"
		case seen[canonical]:
			message = "is set twice in different spelling; keep one"
		case reserved(canonical) || c.Format != CloudEvents && strings.HasPrefix(canonical, "Ce-"):
			message = "is set by informd itself; remove it"
		case canonical == "Authorization" && c.Auth.Wanted():
			message = "is set by auth, too; keep one"
		case strings.ContainsFunc(value.Reveal(), badInValue):
			message = "has a line break or another control character in its value; remove it"
		}
		seen[canonical] = true
		if message != "" {
			problems = append(problems, sink.Problem{Key: "headers." + name, Message: message})
		}
	}
	return problems
}

func badInName(r rune) bool {
	const others = "!#$%&'*+-.^_`|~"
	alphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !alphanumeric && !strings.ContainsRune(others, r)
}

func badInValue(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// reserved reports whether informd or the protocol sets a header, in its canonical form.
func reserved(name string) bool {
	switch name {
	case "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Webhook-")
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
	s.client = &http.Client{
		Transport:     c.transport(config),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if _, err := s.signer.secrets(); err != nil {
		return nil, err
	}
	if _, err := s.credential.header(); err != nil {
		return nil, err
	}
	return s, nil
}

// endpoint makes a sink without a client: it makes requests and sends none.
func (c *Config) endpoint(env sink.Env) (*webhook, error) {
	endpoint, err := url.Parse(c.URL.Reveal())
	if err != nil {
		return nil, errors.New("url is not an address") // err would show it
	}
	encoder, err := compress.NewEncoder(c.Compression)
	if err != nil {
		return nil, err
	}
	return &webhook{
		config:     c,
		url:        endpoint,
		agent:      "informd/" + env.Cluster,
		signer:     signer{file: c.Signing.KeyFile},
		encoder:    encoder,
		credential: credential{auth: c.Auth},
	}, nil
}

func (c *Config) transport(config *tls.Config) *http.Transport {
	dialer, proxy := &net.Dialer{Timeout: c.Timeout}, http.ProxyFromEnvironment
	if c.BlockPrivateAddresses {
		dialer.Control, proxy = refusePrivate, refuseProxy(proxy)
	}
	return &http.Transport{
		Proxy:           proxy,
		TLSClientConfig: config,
		// A request that ends does not end the making of its connection, which
		// later requests could use: it needs limits of its own.
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: c.Timeout,
		// All requests share one HTTP/2 connection, and a timeout ends only the
		// request: who finds out that the connection is dead is the ping.
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: c.Timeout, PingTimeout: c.Timeout},
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // of answers, which nobody reads
		MaxIdleConnsPerHost:    lanes,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}
