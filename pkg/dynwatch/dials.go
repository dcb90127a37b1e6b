package dynwatch

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// dials count the connections to the API server. Connections that are open stay with the
// cluster that they reached, and a new one goes where the address leads now. So the identity
// of the cluster is checked again after each new connection. Its methods may be called
// concurrently.
type dials struct {
	count atomic.Uint64

	mu sync.Mutex // for a moment only
	// unproven are the open connections that no check of the identity has followed.
	unproven map[*dialled]struct{}
}

// dialled is one connection.
type dialled struct {
	net.Conn

	of *dials
}

// Close closes the connection.
func (d *dialled) Close() error {
	d.of.prove([]*dialled{d})
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
		one := &dialled{Conn: conn, of: d}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.unproven == nil {
			d.unproven = make(map[*dialled]struct{})
		}
		d.unproven[one] = struct{}{}
		d.count.Add(1)
		return one, nil
	}
}

// open returns the unproven connections, and how many connections there were in all.
func (d *dials) open() (unproven []*dialled, count uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for one := range d.unproven {
		unproven = append(unproven, one)
	}
	return unproven, d.count.Load()
}

// prove notes that connections lead to the right cluster, or are closed.
func (d *dials) prove(all []*dialled) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range all {
		delete(d.unproven, one)
	}
}

// closeUnproven closes the connections that can lead to another cluster.
func (d *dials) closeUnproven() {
	unproven, _ := d.open()
	for _, one := range unproven {
		_ = one.Close() // its requests fail, and are made again
	}
}
