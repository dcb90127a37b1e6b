package nats

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

// validateConnection names what is wrong with the keys of the connection.
func (c *Config) validateConnection() []sink.Problem {
	problems := c.Servers.Validate("nats://nats-1:4222, nats://nats-2:4222", wrongAddress)
	problems = append(problems, c.Auth.Validate("NATS", connection.Username, connection.Password, connection.PasswordFile,
		connection.Token, connection.TokenFile, connection.CredsFile, connection.NkeyFile)...)
	problems = append(problems, c.validateUser()...)
	problems = append(problems, c.validateScheme()...)
	return append(problems, c.TLS.Validate()...)
}

// validateScheme refuses TLS that tls turns off and an address turns on.
func (c *Config) validateScheme() []sink.Problem {
	if c.TLS.Enabled == nil || *c.TLS.Enabled {
		return nil
	}
	for i, s := range c.Servers.Reveal() {
		if u, err := url.Parse(s); err == nil && c.encrypted(u) {
			plain := "nats"
			if u.Scheme == "wss" {
				plain = "ws"
			}
			return []sink.Problem{{Key: "tls.enabled", Message: fmt.Sprintf("is false, but %s begins with %s://, which turns TLS on: remove this key, or write %s://", c.Servers.Key(i), u.Scheme, plain)}}
		}
	}
	return nil
}

// wrongAddress never shows the address: it may hold a password.
func wrongAddress(address string) string {
	u, err := url.Parse(address)
	if err == nil && u.Host != "" && slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
		return ""
	}
	return "is not an address like nats://host:4222 or tls://host:4222 (reserved characters in a password must be percent-encoded)"
}

// validateUser checks the users in addresses, and that no password or token is sent without
// TLS.
func (c *Config) validateUser() []sink.Problem {
	user, exposed := false, -1
	for i, s := range c.Servers.Reveal() {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || strings.Contains(u.Host, ",") {
			continue // a problem of its address
		}
		user = user || u.User != nil
		if secret := u.User != nil || c.Auth.HasPassword() || c.Auth.HasToken(); secret && exposed < 0 && !c.encrypted(u) && !connection.Loopback(u.Hostname()) {
			exposed = i
		}
	}
	var problems sink.Problems
	if user && c.Auth.Wanted() {
		problems.Add("auth", "servers has a user already; keep one")
	}
	if exposed >= 0 && !c.AllowInsecureAuth {
		problems.Add(c.Servers.Key(exposed), "would get the password or token without TLS over the network; "+
			"use tls://, auth.credsFile or auth.nkeyFile, or set allowInsecureAuth: true")
	}
	return problems
}

// Exposed returns the key and the host of a server on another machine to which a connection
// has no TLS, unless the user allows it.
func (c *Config) Exposed() (key, host string) {
	if c.AllowInsecureAuth {
		return "", ""
	}
	for i, s := range c.Servers.Reveal() {
		if u, err := url.Parse(s); err == nil && u.Host != "" && !c.encrypted(u) && !connection.Loopback(u.Hostname()) {
			return c.Servers.Key(i), u.Hostname()
		}
	}
	return "", ""
}

func (c *Config) encrypted(u *url.URL) bool {
	return c.TLS.Wanted() || u.Scheme == "tls" || u.Scheme == "wss"
}
