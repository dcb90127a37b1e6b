package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

// The values of auth.mechanism.
const (
	mechanismPlain  = "plain"
	mechanismSHA256 = "scram-sha-256"
	mechanismSHA512 = "scram-sha-512"
	mechanismOAuth  = "oauthbearer"
)

func (c *Config) validateAuth() []sink.Problem {
	a := c.Auth
	if problems := a.Validate("Kafka", connection.Mechanism, connection.Username, connection.Password, connection.PasswordFile,
		connection.Token, connection.TokenFile); problems != nil {
		return problems
	}
	problem := func(key, message string) []sink.Problem { return []sink.Problem{{Key: key, Message: message}} }
	switch a.Mechanism {
	case "":
		if a.Wanted() {
			return problem("auth", "mechanism is required: plain, scram-sha-256, scram-sha-512 or oauthbearer")
		}
		return nil
	case mechanismOAuth:
		if !a.HasToken() {
			return problem("auth", "oauthbearer needs tokenFile or token, and nothing else")
		}
	case mechanismPlain, mechanismSHA256, mechanismSHA512:
		if !a.HasPassword() {
			return problem("auth", a.Mechanism+" needs username, and passwordFile or password")
		}
	default:
		return problem("auth.mechanism", "is not a mechanism; use plain, scram-sha-256, scram-sha-512 or oauthbearer")
	}
	for _, broker := range c.Servers.Reveal() {
		if host, _, err := connection.HostPort(broker, defaultPort); err == nil && c.endangers(host) {
			return problem("auth", "would send the password or token without TLS over the network; "+
				"set tls, use a scram mechanism, or set allowInsecureAuth: true")
		}
	}
	return nil
}

// endangers reports whether a connection to the host would send the password or token
// without TLS, unless the user allows it.
func (c *Config) endangers(host string) bool {
	exposes := c.Auth.Mechanism == mechanismPlain || c.Auth.Mechanism == mechanismOAuth
	return exposes && !c.TLS.Wanted() && !c.AllowInsecureAuth && !connection.Loopback(host)
}

// Exposed implements [sink.Exposer].
func (c *Config) Exposed() (key, host string) { return c.Servers.Exposed(c.TLS, c.AllowInsecureAuth) }

// dial makes a connection to a broker, one of the config or one that those have
// announced, which Validate has not seen.
func (c *Config) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("broker address %q: %w", address, err)
	}
	if c.endangers(host) {
		return nil, fmt.Errorf("broker %s would get the password or token without TLS: set tls, use a scram mechanism, or set allowInsecureAuth: true", address)
	}
	config, err := c.TLS.Config()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if !c.TLS.Wanted() {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("TLS connection to %s: %w", address, err) // those of crypto/tls lack the address
	}
	return conn, nil
}

// checkFiles reads the files once, to report early what is wrong with them.
func checkFiles(a connection.Auth) error {
	_, err := a.ReadPassword()
	_, tokenErr := a.ReadToken()
	return errors.Join(err, tokenErr)
}

// mechanism returns the SASL mechanism, which reads the files for each connection; nil
// without a login.
func mechanism(a connection.Auth) (sasl.Mechanism, error) {
	scramAuth := func(context.Context) (scram.Auth, error) {
		password, err := a.ReadPassword()
		return scram.Auth{User: a.Username, Pass: password}, err
	}
	switch a.Mechanism {
	case "":
		return nil, nil
	case mechanismPlain:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := a.ReadPassword()
			return plain.Auth{User: a.Username, Pass: password}, err
		}), nil
	case mechanismSHA256:
		return scram.Sha256(scramAuth), nil
	case mechanismSHA512:
		return scram.Sha512(scramAuth), nil
	case mechanismOAuth:
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := a.ReadToken()
			return oauth.Auth{Token: token}, err
		}), nil
	}
	return nil, errors.New("auth.mechanism is not known")
}
