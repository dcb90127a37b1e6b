package nats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	client "github.com/nats-io/nats.go"
)

// link is the connection to the server. A Write makes it, with credentials that are read again, and its
// first error ends it: the client library does not reconnect by itself. So all that was sent over one
// connection went over one socket. The library holds its lock while it dials, and while it writes to a
// socket that takes nothing; the link has the socket, and can interrupt both. Its methods are not called
// concurrently.
type link struct {
	logger  *slog.Logger
	options func() (client.Options, error) // reads the credentials again

	conn  *client.Conn  // the last one; nil before the first
	ended chan struct{} // closed when the library is done with conn

	mu     sync.Mutex
	socket net.Conn                // of the last dial; nil once the link has closed it
	deny   context.CancelCauseFunc // ends the Write in progress
}

// guard returns the context of a Write. It ends when the server has denied a permission: the server answers
// nothing more then. When ctx ends, the socket is closed, which ends a call that blocks. The caller calls
// release when it is done.
func (l *link) guard(ctx context.Context) (guarded context.Context, release func()) {
	guarded, deny := context.WithCancelCause(ctx)
	l.mu.Lock()
	l.deny = deny
	l.mu.Unlock()
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		l.closeSocket()
	})
	return guarded, func() {
		if !stop() {
			<-cut
			if l.conn != nil {
				l.conn.Close() // the library notices the cut late
			}
		}
		deny(nil)
	}
}

func (l *link) closeSocket() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket != nil {
		_ = l.socket.Close() // it may be closed, or broken, already
		l.socket = nil
	}
}

// connection returns the connection, and makes one if the last one has ended.
func (l *link) connection(ctx context.Context) (*client.Conn, error) {
	if l.conn != nil && l.conn.IsConnected() {
		return l.conn, nil
	}
	if err := l.close(ctx); err != nil {
		return nil, err
	}
	o, err := l.options()
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	var refused error // of the last dial: the library keeps it to itself
	o.CustomDialer = dialer(func(network, address string) (socket net.Conn, err error) {
		socket, refused = l.dial(ctx, network, address)
		return socket, refused
	})
	o.AsyncErrorCB = l.asyncError
	o.ClosedCB = func(conn *client.Conn) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.socket != nil { // otherwise the link has ended it
			l.logger.Warn("server connection lost; connecting again for the next events",
				slog.Any("err", orEOF(conn.LastError())))
		}
		close(ended)
	}
	conn, err := o.Connect()
	if errors.Is(err, client.ErrNoServers) && refused != nil {
		err = refused
	}
	if err != nil {
		return nil, fmt.Errorf("no connection: %w", orEOF(err))
	}
	l.conn, l.ended = conn, ended
	l.logger.Info("server connected", slog.String("server", conn.ConnectedAddr()))
	return conn, nil
}

// dialer is a [client.CustomDialer].
type dialer func(network, address string) (net.Conn, error)

// Dial implements [client.CustomDialer].
func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	socket, err := new(net.Dialer).DialContext(limited, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil { // guard may have closed the socket before
		return nil, errors.Join(ctx.Err(), socket.Close())
	}
	l.socket = socket
	return socket, nil
}

// asyncError takes what the server says out of turn.
func (l *link) asyncError(_ *client.Conn, _ *client.Subscription, err error) {
	l.logger.Debug("connection error", slog.Any("err", err))
	if errors.Is(err, client.ErrPermissionViolation) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.deny(explain(err))
	}
}

// lost is the error of what a connection that has ended has not answered.
func (l *link) lost() error {
	return fmt.Errorf("%w: %w", client.ErrConnectionClosed, orEOF(l.conn.LastError()))
}

// close ends the connection and waits for its end, until ctx ends. It flushes nothing: what matters is
// acknowledged.
func (l *link) close(ctx context.Context) error {
	if l.conn == nil {
		return nil
	}
	l.closeSocket()
	l.conn.Close()
	select {
	case <-l.ended:
		l.conn = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close connection: %w", ctx.Err())
	}
}

// orEOF gives the silent end of a connection a name.
func orEOF(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return errors.New("closed by the server")
	}
	return explain(err)
}
