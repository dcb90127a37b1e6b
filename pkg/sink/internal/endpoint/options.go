package endpoint

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
)

// Options are the keys that sinks over HTTP have in common. They are inline in the options of each.
type Options struct {
	// URL is the address of the endpoint. It may hold a password or a token; logs and errors
	// show only its scheme and host.
	URL sink.Secret `yaml:"url"`
	// Compression is the compression of the requests, named in their headers.
	Compression compress.Method `yaml:"compression"`
	// Headers are added to every request.
	Headers map[string]sink.Secret `yaml:"headers"`
	// Auth takes username with passwordFile or password (HTTP basic), or tokenFile or token
	// (a bearer token).
	Auth connection.Auth `yaml:"auth"`
	// Timeout limits one request with its answer.
	Timeout time.Duration `yaml:"timeout"`
	// TLS takes caFile, certFile with keyFile, and serverName. The scheme of url turns TLS on.
	TLS connection.TLS `yaml:"tls"`
	// AllowHTTP permits http:// to an endpoint on another machine.
	AllowHTTP bool `yaml:"allowHTTP"`
}

// Defaults are the values of keys that are not set.
func Defaults() Options { return Options{Compression: compress.None, Timeout: 10 * time.Second} }

// Kind is what distinguishes one sink type from another.
type Kind struct {
	Name    string // with an article, as in "a webhook"
	Example string // an address
	// Login names the keys that may be wrong if the endpoint refuses everything, and Address says
	// what to check if there is no such endpoint at the address.
	Login, Address string
	// Reserved reports whether the sink sets a header itself, by its canonical name, beside those
	// of the protocol.
	Reserved func(header string) bool
	// WrongURL says what else is wrong with an address, "" if nothing is. It never shows the
	// address, which may hold a secret.
	WrongURL func(*url.URL) string
}

// Check returns what is wrong with the keys for a sink type.
func (o *Options) Check(kind Kind) sink.Problems {
	problems := sink.Problems(slices.Concat(validateAuth(kind.Name, o.Auth),
		validateHeaders(o.Headers, o.Auth, kind.Reserved), o.TLS.Validate()))
	if wrong := o.wrongURL(kind); wrong != "" {
		problems.Add("url", "%s", wrong)
	}
	if u, err := url.Parse(o.URL.Reveal()); err == nil && u.User != nil && o.Auth.Wanted() {
		problems.Add("auth", "url has a user already; keep one")
	}
	if problem := o.Compression.Problem(); problem != "" {
		problems.Add("compression", "%s", problem)
	}
	if o.Timeout <= 0 {
		problems.Add("timeout", "must be more than 0, as in 10s")
	}
	if o.TLS.Enabled != nil && *o.TLS.Enabled {
		problems.Add("tls.enabled", "%s does not take this key: the scheme of url turns TLS on, as in %s", kind.Name, kind.Example)
	}
	return problems
}

// wrongURL says what is wrong with the address, and never shows it.
func (o *Options) wrongURL(kind Kind) string {
	u, err := url.Parse(o.URL.Reveal())
	switch {
	case o.URL.Reveal() == "":
		return "is required: the address of the endpoint, as in " + kind.Example
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return "is not an address like " + kind.Example
	case u.Fragment != "":
		return "has a fragment (#...), which is never sent; remove it"
	case u.Scheme == "http" && !connection.Loopback(u.Hostname()) && !o.AllowHTTP:
		return "would send events without TLS over the network; use https://, or set allowHTTP: true"
	}
	return kind.WrongURL(u)
}

// Destination implements [sink.Destined].
func (o *Options) Destination() (name string, identified bool) { return o.URL.Reveal(), false }

// validateHeaders checks the headers that a config adds to each request.
func validateHeaders(headers map[string]sink.Secret, auth connection.Auth, reserved func(name string) bool) []sink.Problem {
	var problems sink.Problems
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value, message := headers[name], ""
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case name == "" || strings.ContainsFunc(name, badInName):
			message = "is not a header name: letters, digits and !#$%&'*+-.^_`|~ only"
		case seen[canonical]:
			message = "is set twice in different spelling; keep one"
		case ofProtocol(canonical) || reserved(canonical):
			message = "is set by informd itself; remove it"
		case canonical == "Authorization" && auth.Wanted():
			message = "is set by auth, too; keep one"
		case strings.ContainsFunc(value.Reveal(), badInValue):
			message = "has a line break or another control character in its value; remove it"
		}
		seen[canonical] = true
		if message != "" {
			problems.Add("headers."+name, "%s", message)
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

// ofProtocol reports whether the protocol sets a header, in its canonical form.
func ofProtocol(name string) bool {
	switch name {
	case "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}
