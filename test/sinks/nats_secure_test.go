package sinks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/test/natsserver"
)

func TestNATSOverTLS(t *testing.T) {
	const host = "nats.example.com"
	dir := t.TempDir()
	certFile, keyFile := sinktest.Certificate(t, filepath.Join(dir, host), host)
	otherCert, otherKey := sinktest.Certificate(t, filepath.Join(dir, "informd"), "informd")
	server := natsserver.Start(t, natsserver.Options{
		Config: fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }", certFile, keyFile, otherCert),
		Connect: []client.Option{
			client.Secure(), client.RootCAs(certFile), client.ClientCert(otherCert, otherKey),
			func(o *client.Options) error { o.TLSConfig.ServerName = host; return nil },
		},
	})
	right := connection.TLS{CAFile: certFile, CertFile: otherCert, KeyFile: otherKey, ServerName: host}
	tests := map[string]struct {
		change func(c *connection.TLS)
		says   string // "" if it works
	}{
		"right":          {func(*connection.TLS) {}, ""},
		"wrong CA":       {func(c *connection.TLS) { c.CAFile = otherCert }, "certificate is not trusted"},
		"system's CAs":   {func(c *connection.TLS) { c.CAFile = "" }, "certificate is not trusted"},
		"wrong name":     {func(c *connection.TLS) { c.ServerName = "" }, "tls.serverName"},
		"no certificate": {func(c *connection.TLS) { c.CertFile, c.KeyFile = "", "" }, "tls.certFile"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := open(t, config(t, server.URL(), func(c *nats.Config) {
				c.TLS = right
				tt.change(&c.TLS)
			}))
			if tt.says == "" {
				sinktest.Deliver(t, s, sinktest.Events(5))
				return
			}
			wantErrorOf(t, writeFails(t, s, sinktest.Events(5), 20*time.Second), tt.says)
		})
	}
	t.Run("tls:// to a server without", func(t *testing.T) {
		plain := startServer(t)
		s := open(t, config(t, strings.Replace(plain.URL(), "nats:", "tls:", 1), nil))
		wantErrorOf(t, writeFails(t, s, sinktest.Events(5), 20*time.Second), "has no TLS")
	})
}

// operator makes users that a server knows by their JWT alone.
type operator struct {
	account nkeys.KeyPair
	config  string
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	created := func(pair nkeys.KeyPair, err error) (nkeys.KeyPair, string) {
		t.Helper()
		must(t, err)
		public, err := pair.PublicKey()
		must(t, err)
		return pair, public
	}
	operatorKey, operatorID := created(nkeys.CreateOperator())
	accountKey, accountID := created(nkeys.CreateAccount())
	_, systemID := created(nkeys.CreateAccount())
	encode := func(claims jwt.Claims) string {
		t.Helper()
		token, err := claims.Encode(operatorKey)
		must(t, err)
		return token
	}
	operatorClaims := jwt.NewOperatorClaims(operatorID)
	operatorClaims.SystemAccount = systemID
	account := jwt.NewAccountClaims(accountID)
	account.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1}
	return &operator{account: accountKey, config: fmt.Sprintf(
		"operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n%s: %s\n%s: %s\n}",
		encode(operatorClaims), systemID, accountID, encode(account), systemID, encode(jwt.NewAccountClaims(systemID)))}
}

// creds returns the content of a credentials file of a new user.
func (o *operator) creds(t *testing.T, lifetime time.Duration) string {
	t.Helper()
	user := userKey(t)
	claims := jwt.NewUserClaims(user.public)
	claims.Expires = time.Now().Add(lifetime).Unix()
	token, err := claims.Encode(o.account)
	must(t, err)
	content, err := jwt.FormatUserConfig(token, []byte(user.seed))
	must(t, err)
	return string(content)
}

// TestNATSCredsRotate writes new credentials into the file before the old ones
// expire and the server ends the connection.
func TestNATSCredsRotate(t *testing.T) {
	o := newOperator(t)
	file := filepath.Join(t.TempDir(), "user.creds")
	own := filepath.Join(t.TempDir(), "own.creds")
	writeFile(t, own, o.creds(t, time.Hour))
	server := natsserver.Start(t, natsserver.Options{Config: o.config, Connect: []client.Option{client.UserCredentials(own)}})
	writeFile(t, file, o.creds(t, 2*time.Second))
	s := open(t, config(t, server.URL(), func(c *nats.Config) { c.JetStream, c.Auth.CredsFile = true, file }))
	events := sinktest.Events(100)
	sinktest.Deliver(t, s, events[:50])
	before, err := os.ReadFile(file)
	must(t, err)
	writeFile(t, file, o.creds(t, time.Hour))
	pause(t.Context(), 3*time.Second) // the first ones have expired
	sinktest.Deliver(t, s, events[50:])
	wantOnce(t, jetStream(t, dial(t, server.URL(), client.UserCredentials(own))), events)

	// And back to what has expired: a new sink is refused, and says why.
	writeFile(t, file, string(before))
	s = open(t, config(t, server.URL(), func(c *nats.Config) { c.JetStream, c.Auth.CredsFile = true, file }))
	wantErrorOf(t, writeFails(t, s, events[:1], 10*time.Second), "refuses the credentials")
}
