package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// bufferBytes is how much of a response the gateway holds, at most.
const bufferBytes = 64 << 10

// Behavior is what the gateway does wrong. The zero value is nothing.
type Behavior struct {
	// Status answers requests with this status and an HTML page: 403, 404, 502 or 503.
	// Lists, Group and Server narrow it down.
	Status int
	// Lists limits Status to requests for a page of all objects of a resource.
	Lists bool
	// Group limits Status to requests for one API group and its discovery. "core"
	// is /api. Empty: all requests.
	Group string
	// Server limits Status and StuckWatches to requests that go to one API server,
	// counted from 1. 0: all requests.
	Server int

	// StuckWatches lets no event of a watch pass. Bookmarks pass, with the revision at
	// which the watch got stuck.
	StuckWatches bool

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

// at reports whether what Server limits is for a request to this server.
func (b *Behavior) at(server int) bool { return b.Server == 0 || b.Server == server+1 }

// concerns reports whether Status is for a request to a server.
func (b *Behavior) concerns(r *http.Request, server int) bool {
	path, query := r.URL.Path, r.URL.Query()
	switch {
	case b.Status == 0 || !b.at(server):
		return false
	case b.Lists && (isWatch(r) || !query.Has("limit") || query.Get("limit") == "1" || query.Has("fieldSelector")):
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

// isWatch reports whether the response is a stream of watch events.
func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" }

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
