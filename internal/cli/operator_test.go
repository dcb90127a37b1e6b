package cli

import (
	"context"
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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/journal"
)

// verifier is an operator that does nothing but compare.
type verifier struct{ admin.Operator }

func (verifier) Verify(context.Context) ([]admin.Verdict, error) {
	return []admin.Verdict{{Target: "core/pods", Objects: 7}}, nil
}

// TestCommandsFindTheSocket: a command finds the socket by the config, also beside a TCP
// listener that takes no commands; with a config without a socket it needs the token. If nobody
// answers at the socket, what listens at admin.listen is another informd.
func TestCommandsFindTheSocket(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	write(t, token, "0123456789abcdef")
	for name, test := range map[string]struct {
		socket string // of the server; "" is none
		config string // of admin, beside listen
		server admin.Options
		want   int
		says   string
		status int // of the command status
	}{
		"socket":         {socket: "journal/admin.sock", config: ""},
		"another socket": {socket: "other.sock", config: ", socket: " + filepath.Join(dir, "other.sock")},
		"token":          {config: `, socket: "", tokenFile: ` + token, server: admin.Options{Admin: config.Admin{TokenFile: token}}},
		"neither":        {config: `, socket: ""`, want: exitFailure, says: "admin.tokenFile"},
		"another config": {socket: "journal/admin.sock", config: ", socket: " + filepath.Join(dir, "none.sock"), want: exitFailure, says: "none.sock", status: exitFailure},
	} {
		t.Run(name, func(t *testing.T) {
			o := test.server
			o.Listen, o.Operator = "127.0.0.1:0", verifier{}
			o.Metrics, o.Logger = prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
			o.Targets = func() []admin.Target { return nil }
			o.Sinks = func() []deliver.Status { return nil }
			o.Journal = func() admin.Journal { return admin.Journal{} }
			o.DeadLetters = func() map[string]uint64 { return nil }
			o.Config = func() *admin.Config { return nil }
			if test.socket != "" {
				o.Socket = filepath.Join(dir, test.socket)
			}
			s := admin.New(o)
			must(t, s.Start())
			t.Cleanup(func() {
				if err := s.Shutdown(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
			config := filepath.Join(t.TempDir(), "config.yaml")
			text := fmt.Sprintf("resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\njournal: {dir: %s}\nadmin: {listen: %q%s}\n",
				filepath.Join(dir, "journal"), s.Address(), test.config)
			write(t, config, text)
			out, errs := ends(t, test.want, "verify", "-c", config)
			if !strings.Contains(errs, test.says) || test.want == exitOK && !strings.Contains(out, "core/pods  7") {
				t.Errorf("it says\n%s%s", out, errs)
			}
			ends(t, test.status, "status", "-c", config)
		})
	}
}

// TestPastOfStoppedInformd: with nobody behind the socket of the config, what the journal has is read from it.
func TestPastOfStoppedInformd(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(journal.Config{Dir: dir, Cluster: "test", Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = j.Close()
	}
	must(t, err)
	config := filepath.Join(t.TempDir(), "config.yaml")
	write(t, config, "cluster: test\nresources: [pods]\nsinks: [{name: out, type: stdout}]\njournal: {dir: "+dir+"}\n")
	ends(t, exitOK, "gaps", "-c", config)
	ends(t, exitFailure, "history", "pods/default/none", "-c", config)
	ends(t, exitFailure, "status", "-c", config)
}

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
	must(t, err)
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
		must(t, err)
		transport, own := c.http.Transport.(*http.Transport)
		if c.base != base || !own || transport.Proxy != nil {
			t.Errorf("base %s, transport %+v; want %s through no proxy", c.base, c.http.Transport, base)
		}
	}
}
