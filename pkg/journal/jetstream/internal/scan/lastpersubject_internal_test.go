package scan

import (
	"testing"

	js "github.com/nats-io/nats.go/jetstream"
)

// What a list may be made from, where the newest 10 messages do not count.
func TestHasAllBut(t *testing.T) {
	copies := &js.ClusterInfo{Leader: "leads", Replicas: []*js.PeerInfo{
		{Name: "current", Current: true},
		{Name: "near", Lag: 10},
		{Name: "catching up", Lag: 11},
		{Name: "silent"},
	}}
	for server, want := range map[string]bool{
		"leads": true, "current": true, "near": true, "catching up": false, "silent": false, "unknown": false,
	} {
		if got := hasAllBut(copies, server, 10); got != want {
			t.Errorf("%s: %t, want %t", server, got, want)
		}
	}
	if !hasAllBut(nil, "alone", 0) {
		t.Error("a server without others has not all")
	}
}
