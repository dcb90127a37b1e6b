package natsconn_test

import (
	"testing"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/natsconn"
)

// TestForeignServers: addresses that servers announce are used only where no
// password can get there without TLS.
func TestForeignServers(t *testing.T) {
	tests := map[string]struct {
		config natsconn.Config
		use    bool
	}{
		"plaintext":         {natsconn.Config{Servers: connection.NewServers("nats://a")}, false},
		"on this machine":   {natsconn.Config{Servers: connection.NewServers("nats://u:p@127.0.0.1")}, false},
		"encrypted":         {natsconn.Config{Servers: connection.NewServers("tls://a", "wss://b")}, true},
		"one in the clear":  {natsconn.Config{Servers: connection.NewServers("tls://a", "nats://b")}, false},
		"encrypted by key":  {natsconn.Config{Servers: connection.NewServers("nats://a"), TLS: connection.TLS{ServerName: "n"}}, true},
		"encryption on":     {natsconn.Config{Servers: connection.NewServers("nats://a"), TLS: connection.TLS{Enabled: new(true)}}, true},
		"plaintext allowed": {natsconn.Config{Servers: connection.NewServers("nats://a"), AllowInsecureAuth: true}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o, err := tt.config.Options("test")
			if err != nil {
				t.Fatal(err)
			}
			if got := !o.IgnoreDiscoveredServers; got != tt.use {
				t.Errorf("uses servers that others name: %t, want %t", got, tt.use)
			}
		})
	}
}
