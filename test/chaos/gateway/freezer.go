package gateway

import (
	"net"
	"sync"
	"time"
)

// freezer is a listener that can freeze its connections and close idle ones. Reads
// and writes of a frozen connection wait, as those of a stopped process do.
type freezer struct {
	net.Listener

	mu    sync.Mutex
	thaw  chan struct{} // closed while nothing is frozen
	idle  time.Duration // 0: no connection is closed for being idle
	conns map[*freezable]bool
}

func newFreezer(listener net.Listener) *freezer {
	f := &freezer{Listener: listener, thaw: make(chan struct{}), conns: make(map[*freezable]bool)}
	close(f.thaw)
	return f
}

// Freeze stops all connections, old and new.
func (f *freezer) Freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flows() {
		f.thaw = make(chan struct{})
	}
}

// Thaw lets them continue.
func (f *freezer) Thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.flows() {
		close(f.thaw)
	}
}

func (f *freezer) flows() bool {
	select {
	case <-f.thaw:
		return true
	default:
		return false
	}
}

func (f *freezer) thawed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.thaw
}

// CloseIdle closes connections that no byte passes for that long. 0: none.
func (f *freezer) CloseIdle(after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = after
	for c := range f.conns {
		c.limit(after)
	}
}

// Accept waits for a connection.
func (f *freezer) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &freezable{Conn: conn, freezer: f, closed: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	c.timer = time.AfterFunc(time.Hour, func() { _ = c.Close() }) // limit sets the time
	f.conns[c] = true
	c.limit(f.idle)
	return c, nil
}

type freezable struct {
	net.Conn
	freezer *freezer
	timer   *time.Timer // closes the idle connection
	once    sync.Once
	closed  chan struct{}
}

func (c *freezable) wait() error {
	select {
	case <-c.freezer.thawed():
		return nil
	case <-c.closed:
		return net.ErrClosed
	}
}

// limit restarts the time after which the idle connection is closed.
func (c *freezable) limit(idle time.Duration) {
	if idle > 0 {
		c.timer.Reset(idle)
	} else {
		c.timer.Stop()
	}
}

// active notes that a byte has passed.
func (c *freezable) active() {
	c.freezer.mu.Lock()
	defer c.freezer.mu.Unlock()
	if c.freezer.conns[c] {
		c.limit(c.freezer.idle)
	}
}

// Read hands over nothing that arrives while the gateway is frozen.
func (c *freezable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if frozen := c.wait(); frozen != nil {
		return 0, frozen
	}
	c.active()
	return n, err
}

// Write sends nothing while the gateway is frozen.
func (c *freezable) Write(p []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	c.active()
	return c.Conn.Write(p)
}

// Close ends the connection and whatever waits on it.
func (c *freezable) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.freezer.mu.Lock()
		defer c.freezer.mu.Unlock()
		delete(c.freezer.conns, c)
		c.timer.Stop()
	})
	return c.Conn.Close()
}
