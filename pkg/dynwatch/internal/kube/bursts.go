package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"
)

// At the rates of clusters an event costs its wake-up, not its bytes: the kernel wakes a thread,
// and the event wakes one goroutine after the other up to the sinks. A connection that waits
// before it reads again has the kernel gather what comes meanwhile, and everything behind it
// works in batches. The socket's buffer bounds what waits; when it is full, the server waits.
// docs/performance.md has the measurements.

const (
	// burstSize is how much of a burst is read at once.
	burstSize = 64 << 10
	// burstBytes is what one wait should gather at most, half of the socket's buffer: a
	// connection with more waits less, so that the buffer does not limit its rate.
	burstBytes = streamBuffer / 2
	// leastWait is what is not worth a timer.
	leastWait = time.Millisecond
)

// bursts is how a connection gathers events. One goroutine at a time reads.
type bursts struct {
	// most is how long a read waits at most, in nanoseconds; 0: it does not wait.
	most atomic.Int64

	// buffer has what was read of a burst, and unread what of that was not returned. A
	// connection has one only while it reads a burst, or waits for one after another.
	buffer *[burstSize]byte
	unread []byte
	// now: what is not there is not waited for.
	now   bool
	timer *time.Timer
	// over: the last read found less than it asked for, so that the burst is over.
	over bool
	// bytes are those of the burst, and took is how long they gathered.
	bytes int
	took  time.Duration
	// last is when something was read.
	last time.Time
	// sparse: the burst came after a pause that was longer than a wait, so that no other one is
	// expected soon.
	sparse bool
}

// errLater says that nothing is there. [tls.Conn] can be read again after an error of a deadline.
var errLater = &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}

// Read reads what has come, after a wait if the connection gathers.
func (d *dialled) Read(p []byte) (int, error) {
	b := &d.bursts
	most := time.Duration(b.most.Load())
	switch {
	case len(b.unread) > 0:
		return d.take(p), nil
	case b.now:
		return 0, errLater
	case most == 0:
		return d.Conn.Read(p)
	}
	into, waited, begins := p, time.Duration(0), b.over || b.last.IsZero()
	if b.over && !b.sparse {
		waited = b.wait(most, d.closed)
		b.buffer, _ = d.of.buffers.Get().(*[burstSize]byte)
		if b.buffer == nil {
			b.buffer = new([burstSize]byte)
		}
		into = b.buffer[:]
	}
	n, err := d.Conn.Read(into)
	now := time.Now()
	if begins {
		b.bytes, b.took = 0, now.Sub(b.last)
		b.sparse = b.took-waited > most
	}
	b.last = now
	b.bytes += n
	b.over = n < len(into)
	if b.buffer != nil {
		b.unread = b.buffer[:n]
		n = d.take(p)
	}
	return n, err
}

// take returns what was read before.
func (d *dialled) take(p []byte) int {
	b := &d.bursts
	n := copy(p, b.unread)
	if b.unread = b.unread[n:]; len(b.unread) == 0 {
		b.unread = nil
		d.of.buffers.Put(b.buffer)
		b.buffer = nil
	}
	return n
}

// wait waits for another burst, and returns for how long. A wait ends with a period of the clock,
// so that the reads of many connections wake the process once.
func (b *bursts) wait(most time.Duration, closed <-chan struct{}) time.Duration {
	if b.bytes > burstBytes {
		most = min(most, b.took*burstBytes/time.Duration(b.bytes))
	}
	if most < leastWait {
		return 0
	}
	began := time.Now()
	// Truncated times have no monotonic clock: the clock of the machine may be set back.
	left := min(b.last.Truncate(most).Add(most).Sub(began), most)
	if left < leastWait {
		return 0
	}
	if b.timer == nil {
		b.timer = time.NewTimer(left)
	} else {
		b.timer.Reset(left)
	}
	select {
	case <-b.timer.C:
	case <-closed:
	}
	return time.Since(began)
}

// Write ends the gathering: an answer follows, which must not wait.
func (d *dialled) Write(p []byte) (int, error) {
	d.bursts.most.Store(0)
	return d.Conn.Write(p)
}

// gathering is a connection with TLS that returns all records of a burst together; [tls.Conn]
// returns one at a time.
type gathering struct {
	*tls.Conn

	raw *dialled
}

// Read reads what has come.
func (g *gathering) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if err != nil || g.raw.bursts.most.Load() == 0 {
		return n, err
	}
	g.raw.bursts.now = true
	defer func() { g.raw.bursts.now = false }()
	for n < len(p) {
		more, err := g.Conn.Read(p[n:])
		n += more
		if err != nil {
			break // another error than errLater comes again
		}
	}
	return n, nil
}

// gatherOver has the connections of a transport that uses HTTP/1.1 and TLS gather whole bursts.
// Now returns the transport as it is when a connection is made: wrappers of the caller change its
// dialer and certificate after this, and client-go replaces it when the authority of the API server
// changes. A transport whose caller makes the TLS connections stays as it is.
func gatherOver(t *http.Transport, now func() *http.Transport) {
	if t.DialTLSContext != nil || t.DialTLS != nil { //nolint:staticcheck // a caller may use it
		return
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		current, raw := now(), (*dialled)(nil)
		conn, err := current.DialContext(context.WithValue(ctx, dialledKey{}, &raw), network, address)
		if err != nil {
			return nil, err
		}
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if current.TLSClientConfig != nil {
			config = current.TLSClientConfig.Clone()
		}
		config.NextProtos = []string{"http/1.1"}
		if config.ServerName == "" {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			config.ServerName = host
		}
		over := tls.Client(conn, config)
		if current.TLSHandshakeTimeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, current.TLSHandshakeTimeout)
			defer cancel()
		}
		if err := over.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		if raw != nil {
			return &gathering{Conn: over, raw: raw}, nil
		}
		return over, nil
	}
}

// dialledKey is the key of a context's **dialled, which the dialer of [dials] sets: wrappers of the
// caller hide the connection.
type dialledKey struct{}

// Bursts returns a context for the request of a watch, and a function to call when the watch is
// open: from then on its connection gathers events for up to [Clients.MaxDelay]. A connection
// that other requests share does not.
func (c *Clients) Bursts(ctx context.Context) (context.Context, func()) {
	if c.MaxDelay <= 0 {
		return ctx, func() {}
	}
	var used atomic.Pointer[dialled]
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		switch conn := info.Conn.(type) {
		case *gathering:
			used.Store(conn.raw)
		case *dialled: // without TLS; behind a proxy for HTTPS nothing gathers
			used.Store(conn)
		}
	}})
	return traced, func() {
		if one := used.Load(); one != nil {
			one.bursts.most.Store(int64(c.MaxDelay))
		}
	}
}
