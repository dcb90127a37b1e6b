// Package natsconn says where a NATS server is and how informd logs in there: the
// part of a config that the nats sink and the nats journal share, and the options
// of nats.go that it amounts to. It makes no connection.
package natsconn

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/sink"
)

// Config is the part of a config about the connection.
type Config struct {
	// URL is one or several servers of one cluster, separated by commas:
	// "nats://a:4222,nats://b:4222"; tls:// demands TLS. It may hold a user and
	// password, or a token in the place of the user, hence the type.
	URL sink.Secret `yaml:"url"`
	// CredsFile (a JWT and its key), NkeyFile (a seed) and TokenFile say who
	// informd is; at most one. They are read again for every connection, an
	// nkey after the server has refused the old one.
	CredsFile string `yaml:"credsFile"`
	NkeyFile  string `yaml:"nkeyFile"`
	TokenFile string `yaml:"tokenFile"`
	TLS       TLS    `yaml:"tls"`
	// AllowPlaintext permits a password or token on a connection that need not
	// be encrypted, to a server that is not on this machine, and events without a
	// warning. It also permits to
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

// Validate names what is wrong with the options, by key.
func (c *Config) Validate() []sink.Problem {
	problems := append(c.validateURL(), c.validateCredentials()...)
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		problems = append(problems, sink.Problem{Key: "tls", Message: "certFile and keyFile go together; set both or none"})
	}
	return problems
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

// Exposed returns the key and the host of a server on another machine to which a connection
// is not encrypted, unless the user allows it.
func (c *Config) Exposed() (key, host string) {
	if c.AllowPlaintext {
		return "", ""
	}
	for _, s := range c.servers() {
		if u, err := url.Parse(s); err == nil && u.Host != "" && !c.encrypted(u) && !loopback(u.Hostname()) {
			return "url", u.Hostname()
		}
	}
	return "", ""
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
