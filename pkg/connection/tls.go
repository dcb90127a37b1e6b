package connection

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/informd/informd/pkg/sink"
)

// TLS is the encryption of the connection. Any key of it but enabled: false turns encryption on.
type TLS struct {
	// Enabled turns encryption on if no other key is needed. Default: true with any other key.
	// With false, no other key is allowed.
	Enabled *bool `yaml:"enabled"`
	// CAFile holds the certificates of the authorities that may sign the server's
	// certificate. Default: the system's authorities.
	CAFile string `yaml:"caFile"`
	// CertFile is the certificate that informd shows to the server, with KeyFile.
	CertFile string `yaml:"certFile"`
	// KeyFile is the key of CertFile.
	KeyFile string `yaml:"keyFile"`
	// ServerName is the name in the server's certificate. Default: the host of the address.
	ServerName string `yaml:"serverName"`
}

// Wanted reports whether the connection is encrypted.
func (t TLS) Wanted() bool {
	if t.Enabled != nil {
		return *t.Enabled
	}
	return t.hasKeys()
}

// hasKeys reports whether any key but enabled is set.
func (t TLS) hasKeys() bool {
	t.Enabled = nil
	return t != TLS{}
}

// Validate returns what is wrong with the keys.
func (t TLS) Validate() []sink.Problem {
	var problems sink.Problems
	if t.Enabled != nil && !*t.Enabled && t.hasKeys() {
		problems.Add("tls.enabled", "is false, but other keys of tls are set: set it to true, or remove the other keys")
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		problems.Add("tls", "certFile and keyFile go together; set both or none")
	}
	return problems
}

// Config reads the files and returns what crypto/tls makes of them. The certificate is
// read again for each connection, the authorities with each call.
func (t TLS) Config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read tls.caFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read tls.caFile %s: the file has no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" {
		if _, err := t.certificate(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.certificate() }
	}
	return config, nil
}

func (t TLS) certificate() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read tls.certFile %s and tls.keyFile %s: %w", t.CertFile, t.KeyFile, err)
	}
	return &pair, nil
}
