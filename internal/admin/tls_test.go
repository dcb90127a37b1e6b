package admin_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := certificate("authority", 0)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return authority{cert, key}
}

func certificate(name string, use x509.ExtKeyUsage) *x509.Certificate {
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if use != 0 {
		c.ExtKeyUsage = []x509.ExtKeyUsage{use}
	}
	return c
}

// issue writes a certificate and its key.
func (a authority) issue(t *testing.T, certFile, keyFile, name string, use x509.ExtKeyUsage) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, certificate(name, use), a.cert, key.Public(), a.key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", private)
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// ask sends a request over TLS.
func ask(t *testing.T, s *admin.Server, c *tls.Config) error {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.Address()+"/status", nil)
	must(t, err)
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		t.Errorf("/status = %d", response.StatusCode)
	}
	return response.Body.Close()
}

func clientOf(t *testing.T, files admin.TLS) *tls.Config {
	t.Helper()
	c, err := files.ClientConfig()
	must(t, err)
	return c
}

// TestTLS: who reads the same files is served, whatever names are in the certificate;
// another server is not trusted; a rotation takes effect without a restart.
func TestTLS(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	files := admin.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	ca.issue(t, files.CertFile, files.KeyFile, "informd.example.com", x509.ExtKeyUsageServerAuth)
	o := options()
	o.TLS = config.AdminTLS(files)
	s := start(t, o)
	before := clientOf(t, files)
	must(t, ask(t, s, before))
	trusting := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "informd.example.com"}
	trusting.RootCAs.AddCert(ca.cert)
	if err := ask(t, s, trusting); err != nil {
		t.Errorf("a client that knows the authority: %v", err)
	}
	if code, _ := get(t, s, "/status"); code != http.StatusBadRequest {
		t.Errorf("plain HTTP is answered with %d", code)
	}

	ca.issue(t, files.CertFile, files.KeyFile, "informd.example.com", x509.ExtKeyUsageServerAuth)
	if err := ask(t, s, clientOf(t, files)); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	if err := ask(t, s, before); err == nil || !strings.Contains(err.Error(), "another certificate") {
		t.Errorf("a client with the certificate of before: %v", err)
	}
	after := clientOf(t, files)
	must(t, os.WriteFile(files.KeyFile, []byte("half"), 0o600))
	if err := ask(t, s, after); err != nil {
		t.Errorf("in the middle of a rotation: %v", err)
	}
}

// TestTLSFilesAreReadAgain: files that could not be read are used when they can be, also
// with the time and size of before.
func TestTLSFilesAreReadAgain(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	files := admin.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	ca.issue(t, files.CertFile, files.KeyFile, "informd", x509.ExtKeyUsageServerAuth)
	o := options()
	o.TLS = config.AdminTLS(files)
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := start(t, o)
	before := clientOf(t, files)
	ca.issue(t, files.CertFile, files.KeyFile, "informd", x509.ExtKeyUsageServerAuth)
	key, err := os.ReadFile(files.KeyFile)
	must(t, err)
	stamp := time.Now().Add(time.Hour)
	write := func(key []byte) {
		t.Helper()
		must(t, errors.Join(os.WriteFile(files.KeyFile, key, 0o600), os.Chtimes(files.KeyFile, stamp, stamp)))
	}
	write(bytes.Repeat([]byte{'-'}, len(key)))
	for range 3 {
		if err := ask(t, s, before); err != nil {
			t.Errorf("while the key is not sound: %v", err)
		}
	}
	write(key)
	if err := ask(t, s, clientOf(t, files)); err != nil {
		t.Errorf("after the key is sound: %v", err)
	}
	must(t, s.Shutdown(t.Context()))
	if n := strings.Count(log.String(), "admin certificate not loaded"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log.String())
	}
}

// TestClientCertificates: with an authority of clients nobody else is served, but who
// has the server's own certificate and key.
func TestClientCertificates(t *testing.T) {
	dir, ca, clients := t.TempDir(), newAuthority(t), newAuthority(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	files := admin.TLS{CertFile: path("tls.crt"), KeyFile: path("tls.key"), ClientCAFile: path("clients.crt")}
	ca.issue(t, files.CertFile, files.KeyFile, "informd", x509.ExtKeyUsageServerAuth)
	writePEM(t, files.ClientCAFile, "CERTIFICATE", clients.cert.Raw)
	o := options()
	o.TLS = config.AdminTLS(files)
	s := start(t, o)
	if err := ask(t, s, clientOf(t, files)); err != nil {
		t.Errorf("the server's own: %v", err)
	}
	for name, c := range map[string]struct {
		by   authority
		use  x509.ExtKeyUsage
		good bool
	}{
		"client":                 {clients, x509.ExtKeyUsageClientAuth, true},
		"client without a use":   {clients, 0, true},
		"server of the clients'": {clients, x509.ExtKeyUsageServerAuth, false},
		"of another authority":   {ca, x509.ExtKeyUsageClientAuth, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.by.issue(t, path("client.crt"), path("client.key"), "monitoring", c.use)
			pair, err := tls.LoadX509KeyPair(path("client.crt"), path("client.key"))
			must(t, err)
			config := clientOf(t, files)
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			if err := ask(t, s, config); (err == nil) != c.good {
				t.Errorf("served: %t (%v), want %t", err == nil, err, c.good)
			}
		})
	}
	config := clientOf(t, files)
	config.GetClientCertificate = nil
	if ask(t, s, config) == nil {
		t.Error("a client without a certificate is served")
	}
}

func TestTLSFilesThatAreNotSound(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	ca.issue(t, path("tls.crt"), path("tls.key"), "informd", 0)
	ca.issue(t, path("other.crt"), path("other.key"), "informd", 0)
	for name, c := range map[string]struct {
		files admin.TLS
		says  string
	}{
		"missing":        {admin.TLS{CertFile: path("missing"), KeyFile: path("tls.key")}, "admin.tls.certFile"},
		"not a pair":     {admin.TLS{CertFile: path("tls.crt"), KeyFile: path("other.key")}, "admin.tls.keyFile"},
		"clients":        {admin.TLS{CertFile: path("tls.crt"), KeyFile: path("tls.key"), ClientCAFile: path("missing")}, "admin.tls.clientCAFile"},
		"clients, a key": {admin.TLS{CertFile: path("tls.crt"), KeyFile: path("tls.key"), ClientCAFile: path("tls.key")}, "no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.TLS = config.AdminTLS(c.files)
			if err := admin.New(o).Start(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Start: %v, want an error that says %s", err, c.says)
			}
		})
	}
	for _, cert := range []string{path("missing"), path("tls.key")} {
		if _, err := (admin.TLS{CertFile: cert}).ClientConfig(); err == nil || !strings.Contains(err.Error(), "admin.tls.certFile") {
			t.Errorf("ClientConfig of %s: %v", cert, err)
		}
	}
}
