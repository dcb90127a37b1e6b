package kube

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// dials count the connections to the API server. An open connection stays with the cluster
// that it reached, and a new one goes where the address leads now. So informd checks the
// identity of the cluster again after each new connection. Its methods may be called
// concurrently.
type dials struct {
	count atomic.Uint64
	// uncounted: the caller's transport makes the connections. Each request can have a new one.
	uncounted bool
	// buffers are those of bursts.
	buffers sync.Pool

	mu sync.Mutex // for a moment only
	// all are the open connections.
	all map[*dialled]struct{}
	// ended: no connection is opened any more.
	ended bool
}

// dialled is one connection.
type dialled struct {
	net.Conn

	of     *dials
	bursts bursts
	closed chan struct{}
	once   sync.Once
}

// Close closes the connection.
func (d *dialled) Close() error {
	d.once.Do(func() { close(d.closed) })
	d.of.mu.Lock()
	delete(d.of.all, d)
	d.of.mu.Unlock()
	return d.Conn.Close()
}

// track has a transport count its connections.
func (d *dials) track(t *http.Transport) {
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		one := &dialled{Conn: conn, of: d, closed: make(chan struct{})}
		if asked, ok := ctx.Value(dialledKey{}).(**dialled); ok {
			*asked = one
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.ended {
			return nil, errors.Join(net.ErrClosed, conn.Close())
		}
		if d.all == nil {
			d.all = make(map[*dialled]struct{})
		}
		d.all[one] = struct{}{}
		d.count.Add(1)
		return one, nil
	}
}

// closeAll closes all connections: where the address leads to more than one cluster, the
// check of one connection says nothing of another one.
func (d *dials) closeAll() {
	d.mu.Lock()
	all := slices.Collect(maps.Keys(d.all))
	d.mu.Unlock()
	for _, one := range all {
		_ = one.Close() // its requests fail, and are made again
	}
}

// end closes all connections, also those that are dialled now.
func (d *dials) end() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.closeAll()
}
