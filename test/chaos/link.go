package chaos

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// linkBuffer is how much a link holds per direction.
const linkBuffer = 32 << 10

// Link is a TCP proxy that does to connections what networks do. All methods are
// safe for concurrent use; the zero weather is fine weather.
type Link struct {
	listener net.Listener
	running  sync.WaitGroup
	ctx      context.Context //nolint:containedctx // ends the goroutines, which belong to the link
	cancel   context.CancelFunc

	mu       sync.Mutex
	backends []string
	random   *rand.Rand // of the choice among the backends
	weather  weather
	changed  chan struct{} // closed when the weather changes
	conns    map[net.Conn]bool
}

// weather is what happens to the bytes.
type weather struct {
	held   bool          // nothing passes, in either direction, and nobody is told
	refuse bool          // new connections are reset
	delay  time.Duration // of every piece
	drip   bool          // one byte per millisecond
}

// NewLink listens on a loopback port and forwards to the backend, a host:port.
func NewLink(backend string) (*Link, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Link{listener: listener, ctx: ctx, cancel: cancel, changed: make(chan struct{}), conns: make(map[net.Conn]bool)}
	l.SetBackend(backend)
	l.running.Go(l.accept)
	return l, nil
}

// Address returns the host:port that the link listens on.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Close ends the link and all its connections, and waits for its goroutines.
func (l *Link) Close() error {
	l.cancel()
	err := l.listener.Close()
	l.Cut()
	l.running.Wait()
	return err
}

// SetBackend sends new connections elsewhere; open ones stay where they are.
func (l *Link) SetBackend(address string) { l.Spread(0, address) }

// Spread sends each new connection to one of the addresses at random. Without any,
// new connections are closed.
func (l *Link) Spread(seed uint64, addresses ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backends, l.random = addresses, rand.New(rand.NewPCG(seed, 6))
}

// route chooses the backend of a new connection; false: it is refused.
func (l *Link) route() (backend string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.weather.refuse || len(l.backends) == 0 {
		return "", false
	}
	return l.backends[l.random.IntN(len(l.backends))], true
}

// Cut resets all open connections.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // RST instead of FIN
		}
		_ = conn.Close()
	}
}

// Hold is a black hole: open connections stay open and silent, new ones are
// accepted and silent. It ends with Heal.
func (l *Link) Hold() { l.set(func(w *weather) { w.held = true }) }

// Refuse resets open connections and new ones.
func (l *Link) Refuse() {
	l.set(func(w *weather) { w.refuse = true })
	l.Cut()
}

// Delay holds every piece back for d.
func (l *Link) Delay(d time.Duration) { l.set(func(w *weather) { w.delay = d }) }

// Drip lets one byte pass per millisecond and direction.
func (l *Link) Drip() { l.set(func(w *weather) { w.drip = true }) }

// Heal brings fine weather. What a black hole held passes on.
func (l *Link) Heal() { l.set(func(w *weather) { *w = weather{} }) }

func (l *Link) set(change func(*weather)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.weather)
	close(l.changed)
	l.changed = make(chan struct{})
}

// Fine reports whether everything passes at once.
func (l *Link) Fine() bool {
	now, _ := l.now()
	return now == weather{}
}

func (l *Link) now() (weather, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.weather, l.changed
}

func (l *Link) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.running.Go(func() { l.serve(conn) })
	}
}

// track notes a connection, so that Cut finds it.
func (l *Link) track(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[conn] = true
}

func (l *Link) drop(conn net.Conn) {
	l.mu.Lock()
	delete(l.conns, conn)
	l.mu.Unlock()
	_ = conn.Close()
}

func (l *Link) serve(client net.Conn) {
	l.track(client)
	defer l.drop(client)
	backend, ok := l.route()
	if !ok {
		if tcp, ok := client.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(l.ctx, "tcp", backend)
	if err != nil {
		return
	}
	l.track(server)
	defer l.drop(server)
	var both sync.WaitGroup
	both.Go(func() { l.pipe(server, client) })
	both.Go(func() { l.pipe(client, server) })
	both.Wait()
}

// pipe forwards one direction. The end of either ends both, as a half-closed
// connection is of no use to HTTP or NATS.
func (l *Link) pipe(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, linkBuffer)
	for {
		n, err := from.Read(buffer)
		if n > 0 && l.forward(to, buffer[:n]) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

var errClosed = errors.New("link closed")

// forward writes as the weather permits.
func (l *Link) forward(to io.Writer, piece []byte) error {
	for len(piece) > 0 {
		w, changed := l.now()
		pause := w.delay
		n := len(piece)
		if w.drip {
			pause, n = time.Millisecond, 1
		}
		if err := l.wait(w.held, pause, changed); err != nil {
			return err
		}
		if now, _ := l.now(); now.held {
			continue
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return err
		}
		piece = piece[n:]
	}
	return nil
}

// wait waits for the pause, or for a change of the weather while it is held.
func (l *Link) wait(held bool, pause time.Duration, changed <-chan struct{}) error {
	if !held && pause == 0 {
		return nil
	}
	var over <-chan time.Time
	if !held {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-changed:
	case <-l.ctx.Done():
		return errClosed
	}
	return nil
}
