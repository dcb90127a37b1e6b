package cli

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
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
	write := func(name, kind string, der []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := write("tls.key", "PRIVATE KEY", key)
	right, wrong := write("tls.crt", "CERTIFICATE", server.Certificate().Raw), write("other.crt", "CERTIFICATE", []byte("other"))
	for _, args := range [][]string{{"status"}, {"verify"}, {"deadletters", "list"}} {
		for certFile, want := range map[string]int{right: exitOK, wrong: exitFailure} {
			config := filepath.Join(dir, "config.yaml")
			text := fmt.Sprintf("resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\nadmin: {listen: %q, tls: {certFile: %s, keyFile: %s}}\n",
				server.Listener.Addr(), certFile, keyFile)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs screen
			if code := run(t.Context(), append(args, "-c", config), &out, &errs); code != want {
				t.Errorf("%v with %s: exit %d, want %d\n%s", args, certFile, code, want, errs.String())
			}
			if want != exitOK && !strings.Contains(errs.String(), "another certificate") {
				t.Errorf("%v with %s says %s", args, certFile, errs.String())
			}
		}
	}
}

// TestNoProxy: no proxy of the environment gets the token, with or without TLS.
func TestNoProxy(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
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
