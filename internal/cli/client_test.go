package cli

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/internal/config"
)

// TestCommandsOverTLS: the commands ask an encrypted admin server by the config alone,
// and none that has another certificate.
func TestCommandsOverTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]any{"/status": busy(), "/verify": []any{}}
		if answer := answers[r.URL.Path]; answer != nil {
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				t.Error(err)
			}
		}
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	inPEM := func(name, kind string, der []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
		return path
	}
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := inPEM("tls.key", "PRIVATE KEY", key)
	right := inPEM("tls.crt", "CERTIFICATE", server.Certificate().Raw)
	wrong := inPEM("other.crt", "CERTIFICATE", []byte("other"))
	for _, args := range [][]string{{"status"}, {"verify"}, {"deadletters", "list"}} {
		for certFile, want := range map[string]int{right: exitOK, wrong: exitFailure} {
			config := filepath.Join(dir, "config.yaml")
			text := fmt.Sprintf("resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\nadmin: {listen: %q, tls: {certFile: %s, keyFile: %s}}\n",
				server.Listener.Addr(), certFile, keyFile)
			write(t, config, text)
			_, errs := ends(t, want, append(args, "-c", config)...)
			if want != exitOK && !strings.Contains(errs, "another certificate") {
				t.Errorf("%v with %s says %s", args, certFile, errs)
			}
		}
	}
}

// TestNoProxy: no proxy of the environment gets the token, with or without TLS.
func TestNoProxy(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for base, encryption := range map[string]config.AdminTLS{"http://10.0.0.5:8080": {}, "https://10.0.0.5:8080": {CertFile: ca, KeyFile: ca}} {
		c, err := overTCP(config.Admin{Listen: "10.0.0.5:8080", TLS: encryption})
		if err != nil {
			t.Fatal(err)
		}
		transport, own := c.http.Transport.(*http.Transport)
		if c.base != base || !own || transport.Proxy != nil {
			t.Errorf("base %s, transport %+v; want %s through no proxy", c.base, c.http.Transport, base)
		}
	}
}
