package webhook_test

import (
	"encoding/base64"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

// guarded serves an endpoint that takes requests with one Authorization header alone.
func guarded(t *testing.T, wanted *atomic.Pointer[string]) *endpointtest.Server {
	t.Helper()
	return serve(t, func(_ int, w http.ResponseWriter, r request) bool {
		if r.Header.Get("Authorization") != *wanted.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(r.Header.Get("Authorization"))) // an endpoint that repeats it
			return false
		}
		return true
	})
}

// TestAuthRotates: a refused credential is read anew for the next attempt, and shows
// in no error.
func TestAuthRotates(t *testing.T) {
	for name, c := range map[string]struct {
		auth          func(file string) connection.Auth
		first, second string
	}{
		"bearer": {
			func(file string) connection.Auth { return connection.Auth{TokenFile: file} },
			"Bearer canary-1", "Bearer canary-2",
		},
		"basic": {
			func(file string) connection.Auth {
				return connection.Auth{Username: "informd", PasswordFile: file}
			},
			"Basic aW5mb3JtZDpjYW5hcnktMQ==", "Basic aW5mb3JtZDpjYW5hcnktMg==",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "credential")
			writeFile(t, file, []byte("canary-1\n"))
			var wanted atomic.Pointer[string]
			wanted.Store(&c.first)
			e := guarded(t, &wanted)
			s := open(t, e.URL, func(o *webhook.Config) { o.Auth = c.auth(file) })
			sinktest.MustWrite(t, s, sinktest.Events(2))
			writeFile(t, file, []byte("canary-2"))
			wanted.Store(&c.second)
			// Unless reading the first one was a second ago, it is refused once.
			if _, err := s.Write(t.Context(), sinktest.Events(1)); err != nil {
				wantError(t, err, false, "401", "auth")
				if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "aW5m") {
					t.Errorf("the error shows the credential: %v", err)
				}
			}
			if n, err := s.Write(t.Context(), sinktest.Events(1)); n != 1 || err != nil {
				t.Errorf("after a rotation: %d, %v", n, err)
			}
		})
	}
}

// TestBadSecretFiles: what is wrong with the content of a file is in the error, and nothing of the content.
func TestBadSecretFiles(t *testing.T) {
	token := func(c *webhook.Config, file string) { c.Auth.TokenFile = file }
	key := func(c *webhook.Config, file string) { c.Signing.KeyFile = file }
	for name, c := range map[string]struct {
		set           func(c *webhook.Config, file string)
		content, says string
	}{
		"two tokens":       {token, "canary\ncanary\n", "white space"},
		"token of no text": {token, "canary\x00", "white space"},
		"huge token":       {token, strings.Repeat("canary", 3000), "more than"},
		"no key":           {key, "\n# nothing\n", "no key"},
		"no prefix":        {key, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "line 1: a signing key begins with whsec_"},
		"no base64":        {key, specSecret + "\nwhsec_canary!!", "line 2"},
		"too short":        {key, "whsec_Y2FuYXJ5", "24 to 64 bytes"},
		"too long":         {key, "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)), "has 65"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "secret")
			writeFile(t, file, []byte(c.content))
			options := config(t, "https://example.com", func(o *webhook.Config) { c.set(o, file) })
			_, err := options.Open(t.Context(), sinktest.Env(t))
			wantError(t, err, false, c.says, file)
			for _, secret := range []string{"canary", "Y2Fu", "MfKQ"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error shows the secret: %v", err)
				}
			}
		})
	}
}

// TestPrivateAddressesAreBlocked: an endpoint on this machine gets not even a
// connection, by whatever name, and the error says why and can pass.
func TestPrivateAddressesAreBlocked(t *testing.T) {
	e := serve(t, nil)
	url := strings.Replace(e.URL, "127.0.0.1", "localhost", 1)
	s := open(t, url, func(c *webhook.Config) { c.BlockPrivateAddresses = true })
	_, err := s.Write(t.Context(), sinktest.Events(1))
	wantError(t, err, false, "a loopback address", "blockPrivateAddresses: false")
	if _, tried := e.Requests(); len(tried) != 0 {
		t.Error("the endpoint was asked all the same")
	}
	if _, err := open(t, url, nil).Write(t.Context(), sinktest.Events(1)); err != nil {
		t.Errorf("unblocked: %v", err)
	}
}
