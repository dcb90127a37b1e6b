package natsconn_test

import (
	"testing"

	"github.com/informd/informd/pkg/natsconn"
	"github.com/informd/informd/pkg/sink"
)

// TestForeignServers: addresses that servers tell of are taken only where no
// password can get there in the clear.
func TestForeignServers(t *testing.T) {
	tests := map[string]struct {
		config natsconn.Config
		use    bool
	}{
		"plaintext":         {natsconn.Config{URL: sink.NewSecret("nats://a")}, false},
		"on this machine":   {natsconn.Config{URL: sink.NewSecret("nats://u:p@127.0.0.1")}, false},
		"encrypted":         {natsconn.Config{URL: sink.NewSecret("tls://a, wss://b")}, true},
		"one in the clear":  {natsconn.Config{URL: sink.NewSecret("tls://a,nats://b")}, false},
		"encrypted by key":  {natsconn.Config{URL: sink.NewSecret("nats://a"), TLS: natsconn.TLS{ServerName: "n"}}, true},
		"plaintext allowed": {natsconn.Config{URL: sink.NewSecret("nats://a"), AllowPlaintext: true}, true},
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
