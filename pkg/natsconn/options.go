package natsconn

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
)

const (
	// dialTimeout bounds the making of a connection to one server, and the
	// greeting after it once more.
	dialTimeout = 2 * time.Second
	// reconnectWait and reconnectJitter lie between two rounds over all servers.
	reconnectWait   = 250 * time.Millisecond
	reconnectJitter = 250 * time.Millisecond
	// pingInterval, twice without an answer, ends a connection whose other end
	// has vanished.
	pingInterval = 10 * time.Second
	// stallTimeout bounds a write to a socket that takes nothing.
	stallTimeout = 30 * time.Second
)

// Options reads the credentials and makes a connection's options of them, under
// the name that the server shows for it. The connection reconnects for ever, and
// refuses to publish while it does.
func (c *Config) Options(name string) (client.Options, error) {
	o := client.GetDefaultOptions()
	o.Servers = c.servers()
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
	// A server tells addresses of others, and the library would log in there the
	// way it did here. Validate has not seen those: without encryption they may
	// be anywhere.
	o.IgnoreDiscoveredServers = !c.allEncrypted() && !c.AllowPlaintext

	for _, set := range []func(*client.Options) error{c.setTLS, c.setCredentials} {
		if err := set(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (c *Config) setTLS(o *client.Options) error {
	if !c.TLS.wanted() {
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
	switch {
	case c.CredsFile != "":
		if err := client.UserCredentials(c.CredsFile)(o); err != nil {
			return fmt.Errorf("read credsFile %s: %w", c.CredsFile, err)
		}
		// Reading took anything for a JWT; signing needs a key.
		if _, err := o.SignatureCB([]byte("nonce")); err != nil {
			return fmt.Errorf("read credsFile %s: %w", c.CredsFile, err)
		}
	case c.NkeyFile != "":
		option, err := client.NkeyOptionFromSeed(c.NkeyFile)
		if err != nil {
			return fmt.Errorf("read nkeyFile %s: %w", c.NkeyFile, err)
		}
		if err := option(o); err != nil {
			return fmt.Errorf("use nkeyFile %s: %w", c.NkeyFile, err)
		}
	case c.TokenFile != "":
		if _, err := readToken(c.TokenFile); err != nil {
			return err
		}
		o.TokenHandler = func() string {
			token, err := readToken(c.TokenFile)
			if err != nil {
				return "" // which the server refuses
			}
			return token
		}
	}
	return nil
}

func readToken(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read tokenFile %s: %w", file, err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("read tokenFile %s: it is empty", file)
	}
	return token, nil
}
