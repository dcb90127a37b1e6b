// Package kubeauth follows the credentials that are embedded in a kubeconfig: tokens,
// passwords and client certificates. client-go reads them once; a rotated credential
// would need a restart. Credentials in files of their own, exec plugins and service
// accounts are client-go's to follow. The daemon makes one [Credentials] at its start.
package kubeauth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/roundtrip"
)

// interval is the time between two reads of the files.
const interval = 5 * time.Second

// Credentials are those of a kubeconfig, as it is now.
type Credentials struct {
	load   func() (*rest.Config, error)
	paths  []string
	logger *slog.Logger
	// interval is the time between two reads.
	interval time.Duration

	config *rest.Config // without what current holds
	fixed  string       // what cannot change without a restart, see fixedOf
	// seen is what the files held when they were loaded last.
	seen    [sha256.Size]byte
	current atomic.Pointer[secrets]
	// conns are the open connections: one keeps the certificate of its handshake.
	conns *connrotation.ConnectionTracker
}

// secrets are what can change without a restart.
type secrets struct {
	authorization string
	cert          *tls.Certificate
}

// New loads the configuration. Paths are the files that load reads; a file may be missing.
func New(load func() (*rest.Config, error), paths []string, logger *slog.Logger) (*Credentials, error) {
	c := &Credentials{load: load, paths: paths, logger: logger, interval: interval, seen: sum(paths), conns: connrotation.NewConnectionTracker()}
	loaded, err := load()
	if err != nil {
		return nil, err
	}
	c.config, c.fixed = loaded, fixedOf(loaded)
	if len(paths) == 0 {
		return c, nil
	}
	s, err := secretsOf(loaded)
	if err != nil {
		return nil, err
	}
	c.current.Store(s)
	c.config = c.following(loaded)
	return c, nil
}

// Config is the configuration for clients, which always use the newest credentials.
func (c *Credentials) Config() *rest.Config { return c.config }

// Follow reads the files again and again until ctx ends. A file counts once it is the same
// at two reads, since it may be being written.
func (c *Credentials) Follow(ctx context.Context) {
	if len(c.paths) == 0 {
		return
	}
	last := c.seen
	wait.UntilWithContext(ctx, func(context.Context) {
		now := sum(c.paths)
		if now == last && now != c.seen {
			c.seen = now
			c.reload()
		}
		last = now
	}, c.interval)
}

// reload uses what the files hold now.
func (c *Credentials) reload() {
	loaded, err := c.load()
	var s *secrets
	if err == nil {
		s, err = secretsOf(loaded)
	}
	if err != nil {
		c.logger.Warn("kubeconfig not usable; previous credentials stay in use (correct the file)", "err", err)
		return
	}
	if now := fixedOf(loaded); now != c.fixed {
		c.logger.Error("kubeconfig changed server or authentication; restart informd to use it",
			"server", display.Address(loaded.Host), "server_in_use", display.Address(c.config.Host))
		return
	}
	before := c.current.Swap(s)
	if before.same(s) {
		return
	}
	if !sameCert(before.cert, s.cert) {
		c.conns.CloseAll() // requests on them fail, and informd repeats them
	}
	c.logger.Info("kubeconfig credentials reloaded")
}

// following returns a copy of the configuration without the embedded credentials: each
// request and each connection gets those of now.
func (c *Credentials) following(loaded *rest.Config) *rest.Config {
	config := rest.CopyConfig(loaded)
	if config.BearerTokenFile == "" {
		config.BearerToken = ""
	}
	config.Username, config.Password = "", ""
	if config.CertFile == "" {
		config.CertData, config.KeyData = nil, nil
	}
	ofFiles := config.CertFile != ""
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		if t := roundtrip.Transport(rt); t != nil && !ofFiles {
			c.certify(t)
		}
		return &authorizer{rt, c}
	})
	return config
}

// certify has a transport's connections use the client certificate of now. Clients with one
// configuration may share a transport: it is changed once.
func (c *Credentials) certify(t *http.Transport) {
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if t.TLSClientConfig.GetClientCertificate != nil {
		return
	}
	t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if cert := c.current.Load().cert; cert != nil {
			return cert, nil
		}
		return &tls.Certificate{}, nil // none
	}
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	t.DialContext = connrotation.NewDialerWithTracker(dial, c.conns).DialContext
}

// authorizer sends the credentials of now with each request.
type authorizer struct {
	http.RoundTripper

	credentials *Credentials
}

// RoundTrip sends one request.
func (a *authorizer) RoundTrip(r *http.Request) (*http.Response, error) {
	if header := a.credentials.current.Load().authorization; header != "" && r.Header.Get("Authorization") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", header)
	}
	return a.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper returns the transport beneath.
func (a *authorizer) WrappedRoundTripper() http.RoundTripper { return a.RoundTripper }

// secretsOf reads the embedded credentials of a configuration.
func secretsOf(c *rest.Config) (*secrets, error) {
	s := &secrets{}
	switch {
	case c.BearerToken != "" && c.BearerTokenFile == "":
		s.authorization = "Bearer " + c.BearerToken
	case c.Username != "" || c.Password != "":
		s.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password))
	}
	if len(c.CertData) > 0 && c.CertFile == "" {
		cert, err := tls.X509KeyPair(c.CertData, c.KeyData)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate of the kubeconfig: %w", err)
		}
		s.cert = &cert
	}
	return s, nil
}

func (s *secrets) same(other *secrets) bool {
	return s.authorization == other.authorization && sameCert(s.cert, other.cert)
}

func sameCert(a, b *tls.Certificate) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Leaf != nil && a.Leaf.Equal(b.Leaf)
}

// fixedOf is the rest of a configuration, as far as it can be compared, as a text.
func fixedOf(c *rest.Config) string {
	return fmt.Sprintf("%#v", []any{
		c.Host, c.APIPath, c.ServerName, c.Insecure, c.CAFile, sha256.Sum256(c.CAData), c.BearerTokenFile, c.CertFile, c.KeyFile,
		fmt.Sprint(c.ExecProvider, c.AuthProvider), fmt.Sprint(c.Impersonate),
	})
}

// sum is what the files hold.
func sum(paths []string) (of [sha256.Size]byte) {
	h := sha256.New()
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			content = []byte(err.Error())
		}
		one := sha256.Sum256(content)
		_, _ = h.Write(one[:]) // never fails
	}
	h.Sum(of[:0])
	return of
}
