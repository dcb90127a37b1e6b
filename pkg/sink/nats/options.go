package nats

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/connection"
)

const (
	// dialTimeout bounds the making of a connection to one server, and the
	// greeting after it once more.
	dialTimeout = 2 * time.Second
	// reconnectWait and reconnectJitter are the pause between two rounds over all servers.
	reconnectWait   = 250 * time.Millisecond
	reconnectJitter = 250 * time.Millisecond
	// pingInterval, twice without an answer, ends a connection whose other end
	// has vanished.
	pingInterval = 10 * time.Second
	// stallTimeout bounds a write to a socket that takes nothing.
	stallTimeout = 30 * time.Second
)

// options reads the credentials and returns the options of a connection, with the
// name that the server shows for it. The connection reconnects without a limit, and
// refuses to publish meanwhile.
func (c *Config) options(name string) (client.Options, error) {
	o := client.GetDefaultOptions()
	o.Servers = c.Servers.Reveal()
	o.Name = name
	o.Timeout = dialTimeout
	o.ReconnectWait, o.ReconnectJitter, o.ReconnectJitterTLS = reconnectWait, reconnectJitter, reconnectJitter
	o.PingInterval = pingInterval
	o.FlusherTimeout = stallTimeout
	o.MaxReconnect = -1
	// The first attempt is as good as any other.
	o.RetryOnFailedConnect = true
	// What is published while there is no connection would sit in a buffer, be
	// sent in an order of its own and vanish at the buffer's limit: refuse it.
	o.ReconnectBufSize = -1
	// A flush that failed has dropped what it held. Only a new connection shows
	// that to those who wait for an answer.
	o.ReconnectOnFlusherError = true
	// A dialer that can be interrupted resolves names itself.
	o.SkipHostLookup = true
	// A server announces addresses of others, and the library would log in there in
	// the same way. Validate has not seen those: without TLS they may be anywhere.
	o.IgnoreDiscoveredServers = !c.allEncrypted() && !c.AllowInsecureAuth

	for _, set := range []func(*client.Options) error{c.setTLS, c.setCredentials} {
		if err := set(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (c *Config) setTLS(o *client.Options) error {
	if !c.TLS.Wanted() {
		return nil
	}
	o.Secure = true
	o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.TLS.ServerName}
	if c.TLS.CAFile != "" {
		if err := client.RootCAs(c.TLS.CAFile)(o); err != nil {
			return fmt.Errorf("read tls.caFile %s: %w", c.TLS.CAFile, err)
		}
	}
	if c.TLS.CertFile != "" {
		if err := client.ClientCert(c.TLS.CertFile, c.TLS.KeyFile)(o); err != nil {
			return fmt.Errorf("read tls.certFile %s and tls.keyFile %s: %w", c.TLS.CertFile, c.TLS.KeyFile, err)
		}
	}
	return nil
}

func (c *Config) setCredentials(o *client.Options) error {
	a := c.Auth
	switch {
	case a.CredsFile != "":
		if err := client.UserCredentials(a.CredsFile)(o); err != nil {
			return fmt.Errorf("read auth.credsFile %s: %w", a.CredsFile, err)
		}
		// Reading took anything for a JWT; signing needs a key.
		if _, err := o.SignatureCB([]byte("nonce")); err != nil {
			return fmt.Errorf("read auth.credsFile %s: %w", a.CredsFile, err)
		}
	case a.NkeyFile != "":
		option, err := client.NkeyOptionFromSeed(a.NkeyFile)
		if err != nil {
			return fmt.Errorf("read auth.nkeyFile %s: %w", a.NkeyFile, err)
		}
		if err := option(o); err != nil {
			return fmt.Errorf("use auth.nkeyFile %s: %w", a.NkeyFile, err)
		}
	case a.HasToken():
		if _, err := readToken(a); err != nil {
			return err
		}
		o.TokenHandler = func() string {
			token, _ := readToken(a) // the server refuses an empty token
			return token
		}
	case a.HasPassword():
		if _, err := a.ReadPassword(); err != nil {
			return err
		}
		o.UserInfo = func() (user, password string) {
			password, _ = a.ReadPassword() // the server refuses an empty password
			return a.Username, password
		}
	}
	return nil
}

// readToken returns the token without white space around it.
func readToken(a connection.Auth) (string, error) {
	token, err := a.ReadToken()
	if err != nil {
		return "", err
	}
	switch token = strings.TrimSpace(token); {
	case token != "":
		return token, nil
	case a.TokenFile == "":
		return "", errors.New("auth.token has only white space: set it to the token, or remove the key")
	default:
		return "", fmt.Errorf("read auth.tokenFile %s: the file is empty", a.TokenFile)
	}
}
