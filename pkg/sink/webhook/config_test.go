package webhook_test

import (
	"crypto/tls"
	"path/filepath"
	"testing"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

func TestValidate(t *testing.T) {
	const canary = "canary-31c9"
	sinktest.Validate(t, webhook.Driver(), canary, map[string][2]string{
		"least":               {"url: https://example.com/events", ""},
		"all":                 {"url: https://u:p@example.com/e?t=1\nheaders: {X-A: b, Authorization: Bearer x}\nsigning: {keyFile: s}\ntimeout: 3s\nbatch: 1000\ntls: {caFile: a, certFile: b, keyFile: c, serverName: d}", ""},
		"loopback":            {"url: http://127.0.0.1:8080", ""},
		"loopback by name":    {"url: http://localhost/", ""},
		"loopback, IPv6":      {"url: 'http://[::1]:8080/'", ""},
		"plaintext":           {"url: http://canary-31c9@example.com/", "url"},
		"plaintext lookalike": {"url: http://127.0.0.1.example.com/", "url"},
		"plaintext allowed":   {"url: http://hook.tools.svc/\nallowHTTP: true", ""},
		"no url":              {"timeout: 1s", "url"},
		"no host":             {"url: https:///canary-31c9", "url"},
		"not an address":      {"url: 'https://canary-31c9:x y'", "url"},
		"other scheme":        {"url: ftp://canary-31c9.example.com", "url"},
		"fragment":            {"url: https://example.com/#canary-31c9", "url"},
		"header name":         {"url: https://example.com\nheaders: {'a:b': canary-31c9}", "headers.a:b"},
		"header twice":        {"url: https://example.com\nheaders: {x-a: canary-31c9, X-A: canary-31c9}", "headers.x-a"},
		"reserved":            {"url: https://example.com\nheaders: {content-type: canary-31c9}", "headers.content-type"},
		"reserved signature":  {"url: https://example.com\nheaders: {webhook-id: canary-31c9}", "headers.webhook-id"},
		"header injection":    {"url: https://example.com\nheaders: {X-A: \"canary-31c9\\r\\nX-B: c\"}", "headers.X-A"},
		"timeout":             {"url: https://example.com\ntimeout: 0s", "timeout"},
		"batch":               {"url: https://example.com\nbatch: 0", "batch"},
		"big batch":           {"url: https://example.com\nbatch: 1001", "batch"},
		"binary, compressed":  {"url: https://example.com\nformat: binary\ncompression: zstd\nheaders: {X-Ce: a}", ""},
		"binary batch":        {"url: https://example.com\nformat: binary\nbatch: 2", "batch"},
		"raw batch":           {"url: https://example.com\nformat: raw\nbatch: 2", "batch"},
		"reserved attribute":  {"url: https://example.com\nformat: raw\nheaders: {ce-id: canary-31c9}", "headers.ce-id"},
		"bearer":              {"url: https://example.com\nauth: {tokenFile: f}", ""},
		"basic":               {"url: https://example.com\nauth: {username: u, passwordFile: f}", ""},
		"two credentials":     {"url: https://example.com\nauth: {tokenFile: f, username: u, passwordFile: f}", "auth"},
		"half a credential":   {"url: https://example.com\nauth: {username: u}", "auth"},
		"user":                {"url: https://example.com\nauth: {username: 'a:b', passwordFile: f}", "auth.username"},
		"auth and user":       {"url: https://u:canary-31c9@example.com\nauth: {tokenFile: f}", "auth"},
		"auth and header":     {"url: https://example.com\nauth: {tokenFile: f}\nheaders: {authorization: canary-31c9}", "headers.authorization"},
		"blocked":             {"url: https://[::ffff:10.0.0.1]/\nblockPrivateAddresses: true", "url"},
		"not blocked":         {"url: https://1.1.1.1/\nblockPrivateAddresses: true", ""},
		"format":              {"url: https://example.com\nformat: structured\ncompression: br", "compression format"},
		"half a key pair":     {"url: https://example.com\ntls: {keyFile: k}", "tls"},
		"tls by a key":        {"url: https://example.com\ntls: {enabled: true}", "tls.enabled"},
		"login of NATS":       {"url: https://example.com\nauth: {credsFile: c, token: canary-31c9}", "auth.credsFile"},
		"two tokens":          {"url: https://example.com\nauth: {tokenFile: c, token: canary-31c9}", "auth"},
		"everything at once":  {"url: ''\ntimeout: -1s\nbatch: -1\nheaders: {'': canary-31c9}", "batch headers. timeout url"},
	})
}

// TestOpenNeedsItsFiles names files that are not there, or hold nothing.
func TestOpenNeedsItsFiles(t *testing.T) {
	least := func(change func(c *webhook.Config)) sink.Config { return config(t, "https://example.com", change) }
	sinktest.NamesFiles(t, least, map[string]func(c *webhook.Config, file string){
		"signing.keyFile":   func(c *webhook.Config, file string) { c.Signing.KeyFile = file },
		"tls.caFile":        func(c *webhook.Config, file string) { c.TLS.CAFile = file },
		"tls.certFile":      func(c *webhook.Config, file string) { c.TLS.CertFile, c.TLS.KeyFile = file, file },
		"auth.tokenFile":    func(c *webhook.Config, file string) { c.Auth.TokenFile = file },
		"auth.passwordFile": func(c *webhook.Config, file string) { c.Auth.Username, c.Auth.PasswordFile = "u", file },
	})
}

// TestClientCertificate rotates what the sink shows to the endpoint.
func TestClientCertificate(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := sinktest.Certificate(t, filepath.Join(dir, "tls"), "first")
	e := unstarted(t, nil)
	shown := make(chan string, 10)
	e.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, VerifyConnection: func(state tls.ConnectionState) error {
		shown <- state.PeerCertificates[0].Subject.CommonName
		return nil
	}}
	e.StartTLS()
	s := open(t, e.URL, func(c *webhook.Config) {
		c.TLS = connection.TLS{CAFile: e.CAFile(t), CertFile: certFile, KeyFile: keyFile}
	})
	for _, name := range []string{"first", "second"} {
		sinktest.Certificate(t, filepath.Join(dir, "tls"), name)
		sinktest.MustWrite(t, s, sinktest.Events(2))
		if got := <-shown; got != name {
			t.Errorf("showed the certificate of %q, want %q", got, name)
		}
		e.CloseClientConnections()
	}
}

// TestServerName: tls.serverName is the name in the endpoint's certificate.
func TestServerName(t *testing.T) {
	e := unstarted(t, nil)
	e.StartTLS() // the certificate is for example.com
	named := func(name string) sink.Sink {
		return open(t, e.URL, func(c *webhook.Config) { c.TLS.CAFile, c.TLS.ServerName = e.CAFile(t), name })
	}
	if n, err := named("example.com").Write(t.Context(), sinktest.Events(1)); n != 1 || err != nil {
		t.Errorf("with the name of the certificate: %d, %v", n, err)
	}
	_, err := named("elsewhere.example.org").Write(t.Context(), sinktest.Events(1))
	wantError(t, err, false, "certificate is not trusted", "tls.serverName")
}
