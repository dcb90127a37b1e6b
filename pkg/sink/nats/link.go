package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
)

const (
	// connectPatience is how long a Write waits for a connection that is being made.
	connectPatience = 5 * time.Second
	// cutDelay is how long after the end of its context a Write may still be
	// busy with the connection before the socket is closed under it.
	cutDelay = 100 * time.Millisecond
)

var errLinkClosed = errors.New("the sink is closed")

// link keeps a connection to the server alive and knows its state. It exists
// because the client library holds its lock while it dials and while it writes
// to a socket that takes nothing: only who owns the socket can interrupt that.
// Its methods may be called concurrently.
type link struct {
	logger  *slog.Logger
	options func() (client.Options, error) // reads the credentials anew
	denied  chan error                     // the last refusal of a publish or subscription; holds one

	mu      sync.Mutex
	current attempt
	socket  net.Conn           // of the current connection; nil before the first
	stop    context.CancelFunc // ends the dial in progress
	dials   uint64             // sockets made so far
	severed bool               // the last of them was closed by cut
	closed  bool
	changed chan struct{} // closed and replaced when current changes
	running sync.WaitGroup
}

// attempt is a connection of the client library, which reconnects by itself, and
// what came of it so far.
type attempt struct {
	conn    *client.Conn // nil until the library has returned it
	ended   chan struct{}
	up      bool
	failure error // why it is not up; nil while that is open
}

func newLink(logger *slog.Logger, options func() (client.Options, error)) *link {
	l := &link{logger: logger, options: options, denied: make(chan error, 1), changed: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connect()
	return l
}

// connect starts a new attempt. The caller holds the lock.
func (l *link) connect() {
	a := attempt{ended: make(chan struct{})}
	l.set(a)
	l.running.Go(func() {
		conn, err := l.dial(a.ended)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.current.ended != a.ended {
			return
		}
		next := l.current
		next.conn = conn
		if err != nil {
			close(a.ended)
			next.failure = err
		}
		l.set(next)
	})
}

// dial makes the library's connection, which is returned even if no server
// answers: the library goes on trying.
func (l *link) dial(ended chan struct{}) (*client.Conn, error) {
	o, err := l.options()
	if err != nil {
		return nil, err
	}
	update := func(change func(a *attempt)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.current.ended == ended {
			next := l.current
			change(&next)
			l.set(next)
		}
	}
	up := func(conn *client.Conn) {
		update(func(a *attempt) { a.conn, a.up, a.failure = conn, true, nil })
		l.logger.Info("server connected", slog.String("server", conn.ConnectedAddr()))
	}
	down := func(err error) {
		update(func(a *attempt) { a.up, a.failure = false, err })
	}
	o.CustomDialer = l
	o.ConnectedCB, o.ReconnectedCB = up, up
	o.DisconnectedErrCB = func(_ *client.Conn, err error) {
		if l.closedHere(err) {
			down(nil) // not for good
			return
		}
		down(fmt.Errorf("connection lost: %w", orEOF(err)))
		l.logger.Warn("server connection lost; reconnecting", slog.Any("err", err))
	}
	o.ReconnectErrCB = func(_ *client.Conn, err error) {
		if !errors.Is(err, client.ErrNoServers) && !l.closedHere(err) { // Dial knows more than that
			down(explain(err))
		}
	}
	o.AsyncErrorCB = l.asyncError
	o.ClosedCB = func(conn *client.Conn) {
		close(ended)
		down(orEOF(conn.LastError()))
	}
	conn, err := o.Connect()
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// asyncError takes what the server says out of turn.
func (l *link) asyncError(_ *client.Conn, _ *client.Subscription, err error) {
	l.logger.Debug("connection error", slog.Any("err", err))
	if !errors.Is(err, client.ErrPermissionViolation) {
		return
	}
	select {
	case l.denied <- explain(err):
	default: // one that nobody has read yet is enough
	}
}

// set changes the state and wakes who waits for that. The caller holds the lock.
func (l *link) set(a attempt) {
	l.current = a
	close(l.changed)
	l.changed = make(chan struct{})
}

// Dial implements the client library's CustomDialer, which calls it with its own
// lock held.
func (l *link) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, errLinkClosed
	}
	l.stop = cancel
	l.mu.Unlock()

	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, network, address)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = nil
	next := l.current
	next.failure = err // nil: somebody listens, and what comes of it is open
	l.set(next)
	if err != nil {
		return nil, err
	}
	if l.closed {
		return nil, errors.Join(errLinkClosed, socket.Close())
	}
	l.dials++
	l.socket, l.severed = socket, false
	return socket, nil
}

// connection returns the connection as soon as there is one, and the number of
// the socket it is over: as long as [link.socketNumber] returns the same, nothing
// sent over it has been lost without an error. It blocks until it is known that
// there is none for now, or until ctx ends.
func (l *link) connection(ctx context.Context) (*client.Conn, uint64, error) {
	l.mu.Lock()
	if l.current.over() && !l.closed {
		// The server's refusal was final for the library. It is not for us.
		l.connect()
	}
	l.mu.Unlock()
	patience := time.NewTimer(connectPatience)
	defer patience.Stop()
	for {
		l.mu.Lock()
		a, changed, dials, severed := l.current, l.changed, l.dials, l.severed
		l.mu.Unlock()
		switch {
		case a.up && !severed && a.conn.IsConnected(): // the library notices a cut late
			return a.conn, dials, nil
		case a.failure != nil:
			return nil, 0, fmt.Errorf("no connection: %w", a.failure)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, fmt.Errorf("no connection: %w", ctx.Err())
		case <-patience.C:
			return nil, 0, fmt.Errorf("no connection within %v: %w", connectPatience, a.lastError())
		}
	}
}

func (a *attempt) over() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// lastError says why an attempt that reached a server came to nothing, which the
// library tells nobody by itself.
func (a *attempt) lastError() error {
	if a.conn == nil || a.conn.LastError() == nil {
		return errors.New("the server does not answer")
	}
	return explain(a.conn.LastError())
}

// socketNumber counts the sockets made so far.
func (l *link) socketNumber() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials
}

// forgetDenial drops a refusal that was about an earlier Write.
func (l *link) forgetDenial() {
	select {
	case err := <-l.denied:
		l.logger.Debug("late error of an earlier write ignored", slog.Any("err", err))
	default:
	}
}

// guard sees to it that who uses the connection gets it back soon after ctx has
// ended, even out of a call that blocks: it closes the socket. The caller calls
// release when it is done.
func (l *link) guard(ctx context.Context) (release func()) {
	released, finished := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(finished)
		delay := time.NewTimer(cutDelay)
		defer delay.Stop()
		select {
		case <-released:
		case <-delay.C:
			l.cut()
		}
	})
	return func() {
		close(released)
		if !stop() {
			<-finished
		}
	}
}

// closedHere reports whether a connection ended with an error because cut has closed its socket.
// The library reports the end late: the next socket may exist by then. So the error decides.
func (l *link) closedHere(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed || errors.Is(err, net.ErrClosed)
}

// cut ends whatever blocks on the network. The library then reconnects.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
	}
	if l.socket != nil {
		l.severed = true
		_ = l.socket.Close() // it may be closed, or broken, already
	}
}

// close ends the connection and waits for what the link runs, until ctx ends.
// Nothing is flushed: what matters has been acknowledged.
func (l *link) close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cut()
	l.running.Wait() // no dial blocks any more
	l.mu.Lock()
	a := l.current
	l.mu.Unlock()
	if a.conn != nil {
		a.conn.Close()
	}
	select {
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close connection: %w", ctx.Err())
	}
}
