package nats

import (
	"fmt"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
)

const (
	// dialTimeout bounds the making of a connection to one server, and the
	// greeting after it once more.
	dialTimeout = 2 * time.Second
	// pingInterval, twice without an answer, ends a connection whose other end
	// has vanished.
	pingInterval = 10 * time.Second
	// stallTimeout bounds a write to a socket that takes nothing.
	stallTimeout = 30 * time.Second
)

// options reads the credentials and returns the options of a connection, with the
// name that the server shows for it.
func (c *Config) options(name string) (client.Options, error) {
	o := client.GetDefaultOptions()
	o.Servers = c.Servers.Reveal()
	o.Name = name
	o.Timeout = dialTimeout
	o.PingInterval = pingInterval
	o.FlusherTimeout = stallTimeout
	// See link. What the library publishes again would be in an order of its own.
	o.AllowReconnect = false
	// A flush that failed has dropped what it held. Only the end of the connection shows
	// that to those who wait for an answer.
	o.ReconnectOnFlusherError = true
	// The link's dialer resolves names itself.
	o.SkipHostLookup = true
	// Servers that a server announces may be anywhere. Validate has checked only those of the config.
	o.IgnoreDiscoveredServers = true
	if c.TLS.Wanted() {
		var err error
		o.Secure = true
		if o.TLSConfig, err = c.TLS.Config(); err != nil {
			return o, err
		}
	}
	return o, c.setCredentials(&o)
}

func (c *Config) setCredentials(o *client.Options) (err error) {
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
		o.Token, err = a.ReadToken()
		if o.Token = strings.TrimSpace(o.Token); err == nil && o.Token == "" { // the library would log in without one
			err = fmt.Errorf("read auth.token or auth.tokenFile %s: it has only white space", a.TokenFile)
		}
	case a.HasPassword():
		o.User = a.Username
		o.Password, err = a.ReadPassword()
	}
	return err
}
