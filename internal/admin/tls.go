package admin

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/informd/informd/internal/config"
)

// TLS names the files by which the server, and who asks it, know each other. The zero
// value is no encryption. The files may change at any time.
// A client with the server's own certificate is permitted as well: the commands of informd
// use it.
type TLS config.AdminTLS

// Wanted reports whether connections are encrypted.
func (t TLS) Wanted() bool { return t.CertFile != "" }

// load reads the files and makes the server's side of a connection.
func (t TLS) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read admin.tls.certFile %s and admin.tls.keyFile %s: %w", t.CertFile, t.KeyFile, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if t.ClientCAFile == "" {
		return c, nil
	}
	text, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("read admin.tls.clientCAFile: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read admin.tls.clientCAFile %s: it has no certificate in PEM form", t.ClientCAFile)
	}
	c.ClientAuth, c.ClientCAs = tls.RequireAnyClientCert, authorities
	c.VerifyConnection = func(state tls.ConnectionState) error { return verifyClient(state, pair.Leaf, authorities) }
	return c, nil
}

// verifyClient checks who asks; the handshake has shown that the key is there.
func verifyClient(state tls.ConnectionState, own *x509.Certificate, authorities *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("no client certificate")
	}
	shown := state.PeerCertificates[0]
	if shown.Equal(own) {
		return nil
	}
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := shown.Verify(x509.VerifyOptions{
		Roots: authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}

// ClientConfig is the side of who reads the same config as the server: it takes the
// certificate in CertFile, and no other, for whatever name that is, and shows it where
// the server wants to see one. The key is read in that case alone.
func (t TLS) ClientConfig() (*tls.Config, error) {
	text, err := os.ReadFile(t.CertFile)
	if err != nil {
		return nil, fmt.Errorf("read admin.tls.certFile: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("read admin.tls.certFile %s: it does not begin with a certificate in PEM form", t.CertFile)
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS12,
		//nolint:gosec // the certificate is compared with the expected one instead
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return fmt.Errorf("it shows another certificate than the one in admin.tls.certFile %s", t.CertFile)
			}
			return nil
		},
	}
	if t.ClientCAFile == "" {
		return c, nil
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read admin.tls.certFile %s and admin.tls.keyFile %s: %w", t.CertFile, t.KeyFile, err)
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return c, nil
}

// serve returns what the server's connections are made with. It fails if the files are not sound. Each
// connection reads them again, because they may rotate; while they are not sound, as in the middle of
// a rotation, the certificate from before stays in use.
func (t TLS) serve(logger *slog.Logger) (*tls.Config, error) {
	first, err := t.load()
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Config]
	var warned minutely
	last.Store(first)
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := t.load()
		if err == nil {
			last.Store(now)
		} else if warned.first() {
			logger.Warn("admin certificate not loaded; the previous one stays in use", "err", err)
		}
		return last.Load(), nil
	}}, nil
}
