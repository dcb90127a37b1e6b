package nats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

// TestForeignServers: addresses that servers announce are used only where no
// password can get there without TLS.
func TestForeignServers(t *testing.T) {
	tests := map[string]struct {
		config Config
		use    bool
	}{
		"plaintext":         {Config{Servers: connection.NewServers("nats://a")}, false},
		"on this machine":   {Config{Servers: connection.NewServers("nats://u:p@127.0.0.1")}, false},
		"encrypted":         {Config{Servers: connection.NewServers("tls://a", "wss://b")}, true},
		"one in the clear":  {Config{Servers: connection.NewServers("tls://a", "nats://b")}, false},
		"encrypted by key":  {Config{Servers: connection.NewServers("nats://a"), TLS: connection.TLS{ServerName: "n"}}, true},
		"encryption on":     {Config{Servers: connection.NewServers("nats://a"), TLS: connection.TLS{Enabled: new(true)}}, true},
		"plaintext allowed": {Config{Servers: connection.NewServers("nats://a"), AllowInsecureAuth: true}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o, err := tt.config.options("test")
			if err != nil {
				t.Fatal(err)
			}
			if got := !o.IgnoreDiscoveredServers; got != tt.use {
				t.Errorf("uses servers that others name: %t, want %t", got, tt.use)
			}
		})
	}
}

// TestBlankToken: the error names the key that has the blank token.
func TestBlankToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, auth := range map[string]connection.Auth{
		"auth.token has only white space": {Token: sink.NewSecret(" ")},
		"read auth.tokenFile " + file:     {TokenFile: file},
	} {
		c := Config{Servers: connection.NewServers("tls://a"), Auth: auth}
		if _, err := c.options("test"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
