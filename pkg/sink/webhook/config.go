package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
)

const (
	// Type is the value of `type:` that stands for this sink.
	Type = "webhook"

	// lanes is how many requests are under way at a time: a request takes a
	// round trip, and endpoints know no order over all objects.
	lanes          = 8
	defaultTimeout = 10 * time.Second
	maxBatch       = 1000
	// maxHeaderBytes is what the headers of an answer may have.
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
	// URL is where to post. It may hold a password or a token, hence the type;
	// no message shows more of it than scheme and host.
	URL sink.Secret `yaml:"url"`
	// Format is [CloudEvents], [Binary] or [Raw].
	Format Format `yaml:"format" enum:"cloudevents,binary,raw"`
	// Compression is that of the bodies; it is the content-encoding.
	Compression compress.Method `yaml:"compression"`
	// Headers are added to every request.
	Headers map[string]sink.Secret `yaml:"headers"`
	// SecretFile has the secrets that requests are signed with, one per line:
	// "whsec_" and 24 to 64 bytes in base64. Empty lines and those that begin
	// with # do not count. Without it requests are not signed.
	SecretFile string `yaml:"secretFile"`
	Auth       Auth   `yaml:"auth"`
	// Timeout is for one request with its answer.
	Timeout time.Duration `yaml:"timeout"`
	// Batch is how many events a request has at most.
	Batch int `yaml:"batch"`
	TLS   TLS `yaml:"tls"`
	// AllowPlaintext permits http:// to an endpoint that is not on this machine.
	AllowPlaintext bool `yaml:"allowPlaintext"`
	// BlockPrivateAddresses refuses endpoints that are not on the public Internet,
	// by the address that a connection goes to.
	BlockPrivateAddresses bool `yaml:"blockPrivateAddresses"`
}

// TLS is the encryption of the connection.
type TLS struct {
	// CAFile has the certificates that the endpoint's must be signed by,
	// instead of the system's. It is read when the sink opens.
	CAFile string `yaml:"caFile"`
	// CertFile and KeyFile are what informd shows to the endpoint. They are
	// read for every connection.
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
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
	c.validateAuth(add)
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		add("tls", "certFile and keyFile go together; set both or none")
	}
	return problems
}

// validateURL never shows what it judges: there may be a secret in it.
func (c *Config) validateURL() []sink.Problem {
	message := ""
	u, err := url.Parse(c.URL.Reveal())
	switch {
	case c.URL.Reveal() == "":
		message = "is required; set it to the endpoint's address, as in https://example.com/events"
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		message = "is not an address like https://example.com/events"
	case u.Fragment != "":
		message = "has a fragment (#...), which is never sent; remove it"
	case u.Scheme == "http" && !loopback(u.Hostname()) && !c.AllowPlaintext:
		message = "would send events unencrypted over the network; use https://, or set allowPlaintext: true"
	case c.BlockPrivateAddresses && privateLiteral(u.Hostname()) != "":
		message = "is at " + privateLiteral(u.Hostname()) + ", which blockPrivateAddresses refuses; remove one of them"
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

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
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
			message = "is there twice in different spelling; keep one"
		case reserved(canonical) || c.Format != CloudEvents && strings.HasPrefix(canonical, "Ce-"):
			message = "is set by informd itself; remove it"
		case canonical == "Authorization" && c.Auth.wanted():
			message = "is what auth sets; keep one"
		case strings.ContainsFunc(value.Reveal(), badInValue):
			message = "the value has a line break or another control character; remove it"
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

// reserved says whether a header, in its canonical form, is not the user's.
func reserved(name string) bool {
	switch name {
	case "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Webhook-")
}

// Open implements [sink.Config]. It fails if a file that it names cannot be read
// or has not what it should.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	s, err := c.endpoint(env)
	if err != nil {
		return nil, err
	}
	config, err := c.tlsConfig()
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

// endpoint makes a sink that has no client yet: it makes requests and sends none.
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
		signer:     signer{file: c.SecretFile},
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

func (c *Config) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS.CAFile != "" {
		pem, err := os.ReadFile(c.TLS.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read tls.caFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read tls.caFile %s: it has no certificate in PEM form", c.TLS.CAFile)
		}
	}
	if c.TLS.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("read tls.certFile and tls.keyFile: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return config, nil
}
