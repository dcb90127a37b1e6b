package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/informd/informd/pkg/sink"
)

// The values of sasl.mechanism.
const (
	mechanismPlain  = "plain"
	mechanismSHA256 = "scram-sha-256"
	mechanismSHA512 = "scram-sha-512"
	mechanismOAuth  = "oauthbearer"
)

// SASL is how informd logs in.
type SASL struct {
	// Mechanism is plain, scram-sha-256, scram-sha-512 or oauthbearer; empty is
	// none of them: the brokers let everybody in, or go by the TLS certificate.
	Mechanism string `yaml:"mechanism"`
	// User and Password, or the content of PasswordFile, are for all mechanisms
	// but oauthbearer. The file is read for every connection.
	User         string      `yaml:"user"`
	Password     sink.Secret `yaml:"password"`
	PasswordFile string      `yaml:"passwordFile"`
	// TokenFile has the token for oauthbearer. It is read for every connection.
	TokenFile string `yaml:"tokenFile"`
}

// exposes reports whether the mechanism sends what it should keep secret.
func (s SASL) exposes() bool { return s.Mechanism == mechanismPlain || s.Mechanism == mechanismOAuth }

// TLS is the encryption of the connections. Setting any of it turns it on. The
// files are read for every connection.
type TLS struct {
	// Enabled turns TLS on where nothing else has to be said about it.
	Enabled bool `yaml:"enabled"`
	// CAFile has the certificates that the brokers' must be signed by, instead of
	// the system's.
	CAFile string `yaml:"caFile"`
	// CertFile and KeyFile are what informd shows to the brokers.
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
	// ServerName is the name in the brokers' certificates, if it is not the host.
	ServerName string `yaml:"serverName"`
}

func (t TLS) wanted() bool { return t != TLS{} }

func (c *Config) validateSASL() []sink.Problem {
	s := c.SASL
	problem := func(key, message string) []sink.Problem { return []sink.Problem{{Key: key, Message: message}} }
	switch s.Mechanism {
	case "":
		if s != (SASL{}) {
			return problem("sasl", "mechanism is required: plain, scram-sha-256, scram-sha-512 or oauthbearer")
		}
		return nil
	case mechanismOAuth:
		if s.TokenFile == "" || s != (SASL{Mechanism: s.Mechanism, TokenFile: s.TokenFile}) {
			return problem("sasl", "oauthbearer needs tokenFile, and nothing else")
		}
	case mechanismPlain, mechanismSHA256, mechanismSHA512:
		switch {
		case s.TokenFile != "":
			return problem("sasl.tokenFile", "is for oauthbearer only; remove it")
		case s.User == "":
			return problem("sasl", "user is required by "+s.Mechanism)
		case (s.Password == sink.Secret{}) == (s.PasswordFile == ""):
			return problem("sasl", "one of password and passwordFile is required")
		}
	default:
		return problem("sasl.mechanism", "is none of plain, scram-sha-256, scram-sha-512 and oauthbearer")
	}
	for _, broker := range c.Brokers {
		if host, _, err := splitAddress(broker); err == nil && c.endangers(host) {
			return problem("sasl", "would send the password or token unencrypted over the network; "+
				"set tls, use a scram mechanism, or set allowPlaintext: true")
		}
	}
	return nil
}

// endangers reports whether a connection to the host would show the credentials to
// those who listen, though nobody has allowed that.
func (c *Config) endangers(host string) bool {
	return c.SASL.exposes() && !c.TLS.wanted() && !c.AllowPlaintext && !loopback(host)
}

// Exposed implements [sink.Exposer].
func (c *Config) Exposed() (key, host string) {
	if c.TLS.wanted() || c.AllowPlaintext {
		return "", ""
	}
	for _, broker := range c.Brokers {
		if host, _, err := splitAddress(broker); err == nil && !loopback(host) {
			return "brokers", host
		}
	}
	return "", ""
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// dial makes a connection to a broker, one of the config or one that those have
// told of, which Validate has not seen.
func (c *Config) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("broker address %q: %w", address, err)
	}
	if c.endangers(host) {
		return nil, fmt.Errorf("broker %s would get the password or token unencrypted: set tls, use a scram mechanism, or set allowPlaintext: true", address)
	}
	config, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil || config == nil {
		return conn, err
	}
	if config.ServerName == "" {
		config.ServerName = host
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS handshake with %s: %w", address, err), conn.Close())
	}
	return secured, nil
}

// config reads the files. It is nil without TLS.
func (t TLS) config() (*tls.Config, error) {
	if !t.wanted() {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read tls.caFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read tls.caFile %s: it has no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read tls.certFile %s and tls.keyFile %s: %w", t.CertFile, t.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// check reads the files once, to find out early what is wrong with them.
func (s SASL) check() error {
	var err error
	switch s.Mechanism {
	case "":
	case mechanismOAuth:
		_, err = readSecret("sasl.tokenFile", s.TokenFile)
	default:
		_, err = s.password()
	}
	return err
}

func (s SASL) password() (string, error) {
	if s.PasswordFile == "" {
		return s.Password.Reveal(), nil
	}
	return readSecret("sasl.passwordFile", s.PasswordFile)
}

func readSecret(key, file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	secret := strings.TrimRight(string(content), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("read %s %s: it is empty", key, file)
	}
	return secret, nil
}

// mechanism is what the client asks whenever it logs in, and nil if it does not.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	scramAuth := func(context.Context) (scram.Auth, error) {
		password, err := s.password()
		return scram.Auth{User: s.User, Pass: password}, err
	}
	switch s.Mechanism {
	case "":
		return nil, nil
	case mechanismPlain:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := s.password()
			return plain.Auth{User: s.User, Pass: password}, err
		}), nil
	case mechanismSHA256:
		return scram.Sha256(scramAuth), nil
	case mechanismSHA512:
		return scram.Sha512(scramAuth), nil
	case mechanismOAuth:
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := readSecret("sasl.tokenFile", s.TokenFile)
			return oauth.Auth{Token: token}, err
		}), nil
	}
	return nil, errors.New("sasl.mechanism is not known")
}
