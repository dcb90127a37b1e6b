package gateway

import (
	"context"
	"strings"
	"time"
)

// bufferBytes is how much of a response the gateway holds, at most.
const bufferBytes = 64 << 10

// Behavior is what the gateway does wrong. The zero value is nothing.
type Behavior struct {
	// Status answers requests with this status and an HTML page: 404, 502 or 503.
	// Group and Server narrow it down.
	Status int
	// Group limits Status to requests for one API group and its discovery. "core"
	// is /api. Empty: all requests.
	Group string
	// Server limits Status to requests that go to one API server, counted from 1.
	// 0: all requests.
	Server int

	// Buffer holds the bytes of responses for this long, or until 64 KiB have
	// gathered or the response ends.
	Buffer time.Duration
	// HeaderDelay is between the headers' arrival and their sending.
	HeaderDelay time.Duration
	// HeadersWithBody sends headers only with the first byte of the body.
	HeadersWithBody bool
	// Stall passes no byte of any response on. Connections stay alive.
	Stall bool
	// HTTP1 offers HTTP/1.1 only to new connections.
	HTTP1 bool
	// Idle aborts responses, and closes connections, that are silent for this long.
	Idle time.Duration
}

// concerns reports whether Status is for a request with a path to a server.
func (b *Behavior) concerns(path string, server int) bool {
	if b.Server != 0 && b.Server != server+1 {
		return false
	}
	prefix := "/apis/" + b.Group
	switch b.Group {
	case "":
		return true
	case "core":
		prefix = "/api"
	}
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// delay waits before the headers are sent; false if the client is gone.
func (b *Behavior) delay(ctx context.Context) bool {
	if b.HeaderDelay == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(b.HeaderDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
