package kubeauth_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/internal/kubeauth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline is for the next reads of the file.
const deadline = time.Minute

// logs is a log that tests read.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), text)
}

// whoami is an API server that answers who asks: the name in the client certificate, and
// the Authorization header. It refuses those without either.
func whoami(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := ""
		if certs := r.TLS.PeerCertificates; len(certs) > 0 {
			name = certs[0].Subject.CommonName
		}
		if name == "" && r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, name+"|"+r.Header.Get("Authorization"))
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func certificate(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, bytes []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return fmt.Sprintf("client-certificate-data: %s, client-key-data: %s", encode("CERTIFICATE", cert), encode("PRIVATE KEY", private))
}

// kubeconfig writes one and returns its path.
func kubeconfig(t *testing.T, path, server, user string) string {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "config")
	}
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x,
contexts: [{name: x, context: {cluster: x, user: x}}],
clusters: [{name: x, cluster: {server: %q, insecure-skip-tls-verify: true}}],
users: [{name: x, user: {%s}}]}`, server, user)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// rig follows a kubeconfig.
type rig struct {
	t      *testing.T
	client *http.Client
	server string
	log    logs
}

func follow(t *testing.T, path, server string) *rig {
	t.Helper()
	r := &rig{t: t, server: server}
	load := func() (*rest.Config, error) {
		loaded, err := clientcmd.BuildConfigFromFlags("", path)
		if err == nil {
			loaded.Dial = new(net.Dialer).DialContext // or tests would share connections
		}
		return loaded, err
	}
	c, err := kubeauth.New(load, []string{path}, slog.New(slog.NewTextHandler(&r.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	c.SetInterval(100 * time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Follow(ctx)
	}()
	if r.client, err = rest.HTTPClientFor(c.Config()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		<-ended
		utilnet.CloseIdleConnectionsFor(r.client.Transport)
	})
	return r
}

// is waits until the API server takes us for somebody.
func (r *rig) is(want string) {
	r.t.Helper()
	var got string
	for end := time.Now().Add(deadline); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if got = r.ask(); got == want {
			return
		}
	}
	r.t.Fatalf("the API server knows us as %q, want %q", got, want)
}

func (r *rig) ask() string {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.server, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func (r *rig) logged(text string) {
	r.t.Helper()
	for end := time.Now().Add(deadline); !r.log.has(text); <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%q is not logged", text)
		}
	}
}

// TestRotation: requests carry what the kubeconfig holds now, whichever kind it is.
func TestRotation(t *testing.T) {
	server := whoami(t)
	for name, test := range map[string][2][2]string{
		"token":       {{"token: first", "|Bearer first"}, {"token: second", "|Bearer second"}},
		"password":    {{"username: a, password: b", "|Basic YTpi"}, {"username: a, password: c", "|Basic YTpj"}},
		"certificate": {{certificate(t, "one"), "one|"}, {certificate(t, "two"), "two|"}},
		"both kinds":  {{certificate(t, "one"), "one|"}, {"token: second", "|Bearer second"}},
		"from nobody": {{"", "|"}, {certificate(t, "two"), "two|"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := kubeconfig(t, "", server.URL, test[0][0])
			r := follow(t, path, server.URL)
			r.is(test[0][1])
			kubeconfig(t, path, server.URL, test[1][0])
			r.is(test[1][1])
			r.logged("kubeconfig credentials reloaded")
		})
	}
}

// TestUnusable: a file that is broken or is of another API server changes nothing, and the
// log says so.
func TestUnusable(t *testing.T) {
	server := whoami(t)
	for name, test := range map[string]struct {
		write func(t *testing.T, path string)
		want  string
	}{
		"broken": {func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "level=WARN msg=\"kubeconfig not usable"},
		"gone": {func(t *testing.T, path string) {
			t.Helper()
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, "level=WARN msg=\"kubeconfig not usable"},
		"no certificate": {func(t *testing.T, path string) {
			t.Helper()
			kubeconfig(t, path, server.URL, "client-certificate-data: eA==, client-key-data: eA==")
		}, "level=WARN msg=\"kubeconfig not usable"},
		"another server": {func(t *testing.T, path string) {
			t.Helper()
			kubeconfig(t, path, "https://127.0.0.1:1", "token: second")
		}, "level=ERROR msg=\"kubeconfig changed server or authentication"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := kubeconfig(t, "", server.URL, "token: first")
			r := follow(t, path, server.URL)
			test.write(t, path)
			r.logged(test.want)
			r.is("|Bearer first")
			kubeconfig(t, path, server.URL, "token: third")
			r.is("|Bearer third")
			if r.log.has("Bearer") || r.log.has("third") {
				t.Error("the log shows credentials")
			}
		})
	}
}
