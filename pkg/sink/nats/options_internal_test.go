package nats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/connection"
)

// TestToken: white space around a token is no part of it, and a blank one is an error that names the file.
func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	c := Config{Servers: connection.NewServers("tls://a"), Auth: connection.Auth{TokenFile: file}}
	for content, want := range map[string]string{" token \n": "token", " \n": ""} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := c.options("test")
		if o.Token != want || (err != nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "auth.tokenFile "+file) {
			t.Errorf("%q: %q, %v", content, o.Token, err)
		}
	}
}
