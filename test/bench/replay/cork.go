package replay

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

const (
	// corkedSize is how much a corked connection gathers for one system call. TLS
	// makes one of every 16 KiB otherwise, which costs the server more than reading
	// them costs a client.
	corkedSize = 256 << 10
	// corkedFor is the longest that it keeps them. With HTTP/2 the server may wait for
	// the client to make room, while the client waits for what is kept here.
	corkedFor = 200 * time.Microsecond
	// manyEvents is from how many waiting ones on a watch's connection is corked.
	manyEvents = 64
)

// corkedListener accepts connections that can be corked.
type corkedListener struct{ net.Listener }

func (l corkedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	k := &cork{Conn: c}
	k.due = time.AfterFunc(time.Hour, k.flush)
	return k, nil
}

// cork is a connection that gathers what is written to it while it is corked.
type cork struct {
	net.Conn

	due *time.Timer

	mu      sync.Mutex
	corked  bool
	pending []byte
	err     error // of a write that nobody waited for
}

func (k *cork) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) == 0 && k.corked {
		k.due.Reset(corkedFor)
	}
	k.pending = append(k.pending, p...)
	if !k.corked || len(k.pending) >= corkedSize {
		k.flushLocked()
	}
	if k.err != nil {
		return 0, k.err
	}
	return len(p), nil
}

func (k *cork) flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flushLocked()
}

func (k *cork) flushLocked() {
	if len(k.pending) > 0 && k.err == nil {
		_, k.err = k.Conn.Write(k.pending)
	}
	k.pending = k.pending[:0]
}

// set corks the connection, or writes what it has gathered and lets through what
// follows.
func (k *cork) set(corked bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.corked = corked; !corked {
		k.flushLocked()
	}
}

// Close ends the connection.
func (k *cork) Close() error {
	k.due.Stop()
	return k.Conn.Close()
}

// corkKey is where the context of a request has its connection.
type corkKey struct{}

func withCork(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		return context.WithValue(ctx, corkKey{}, t.NetConn())
	}
	return ctx
}

// setCork corks the connection of a request, or uncorks it.
func setCork(ctx context.Context, corked bool) {
	if k, ok := ctx.Value(corkKey{}).(*cork); ok {
		k.set(corked)
	}
}
