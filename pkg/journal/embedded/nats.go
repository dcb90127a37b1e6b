package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

const (
	// maxPayload is well above the 3 MiB that an API server takes.
	maxPayload = 8 << 20
	// maxMemory is for streams and consumers in memory: informd keeps the state of
	// its consumers there.
	maxMemory = 64 << 20
	// readerUser is whoever comes over the listener.
	readerUser = "reader"
	// reconnectWait is how long the connection waits between two attempts while
	// the server is started anew.
	reconnectWait = 100 * time.Millisecond
	// readyTimeout bounds the wait for the process's own connections to a server that runs.
	readyTimeout = 10 * time.Second
	// maxReaders bounds the connections over the listener, ownConns are the others.
	maxReaders = 64
	ownConns   = 4
	// maxFloods bounds the connections that wait for their end.
	maxFloods = 16
)

// options are those of every server that this process starts on the directory, which
// may store that many bytes, with these accounts beside its own.
func (s *Server) options(maxStore int64, accounts []*server.Account) (*server.Options, error) {
	o := &server.Options{
		ServerName:             "informd",
		DontListen:             true,
		NoSigs:                 true, // signals belong to the program
		JetStream:              true,
		StoreDir:               s.config.Dir,
		JetStreamMaxStore:      maxStore,
		JetStreamMaxMemory:     maxMemory,
		DisableJetStreamBanner: true,
		SyncAlways:             s.config.SyncAlways,
		MaxPayload:             maxPayload,
		// The gate bounds the consumers of readers; informd's own are bounded by its work.
		JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: -1},
		NoSublistCache:  true, // every object is a subject: it would only be filled and emptied
		Nkeys: []*server.NkeyUser{{
			Nkey:                   s.identity.public,
			AllowedConnectionTypes: map[string]struct{}{"IN_PROCESS": {}},
		}},
	}
	if s.config.Listen == "" {
		return o, nil
	}
	host, port, err := s.config.address()
	if err != nil {
		return nil, err
	}
	o.Host, o.Port = host, cmp.Or(port, s.port, server.RANDOM_PORT) // the same one again after a restart; see admit
	o.MaxConn = maxReaders + ownConns
	o.Accounts = accounts
	o.Users = []*server.User{{Username: readerUser, Account: s.readers, Permissions: readOnly()}}
	o.NoAuthUser = readerUser
	o.Nkeys = append(o.Nkeys, &server.NkeyUser{
		Nkey: s.gatekeeper.public, Account: s.readers, AllowedConnectionTypes: map[string]struct{}{"IN_PROCESS": {}},
		// It answers where a reader says, but never with a request.
		Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.>", "$JS.ACK.>"}}},
	}, &server.NkeyUser{
		Nkey: s.requester.public, Account: s.requests, AllowedConnectionTypes: map[string]struct{}{"IN_PROCESS": {}},
		Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{replies + ">"}}},
	})
	return o, nil
}

// launch starts a server on the directory and waits until it has read its store
// and serves, or ctx ends.
func (s *Server) launch(ctx context.Context) (*server.Server, error) {
	s.mu.Lock()
	maxStore := s.limits.server
	s.mu.Unlock()
	accounts, err := s.newReaders()
	if err != nil {
		return nil, err
	}
	o, err := s.options(maxStore, accounts)
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("set up the embedded nats-server: %w", err)
	}
	s.log.fatal.Store(nil)
	srv.SetLogger(s.log, false, false)
	started := make(chan struct{})
	go func() {
		defer close(started)
		srv.Start()
	}()
	select {
	case <-started:
	case <-ctx.Done():
		<-started // it cannot be called off, and must not go on alone
		shutDown(srv)
		return nil, fmt.Errorf("start the embedded nats-server: %w", context.Cause(ctx))
	}
	reason := s.log.fatal.Load()
	if reason == nil {
		if err := s.enableJournal(srv); err != nil {
			text := err.Error()
			reason = &text
		}
	}
	if reason == nil && !srv.JetStreamEnabled() {
		unknown := "it is not ready after the start"
		reason = &unknown
	}
	if reason != nil {
		shutDown(srv)
		return nil, fmt.Errorf("start the embedded nats-server on journal.dir %s: %s", s.config.Dir, *reason)
	}
	return srv, nil
}

// admit opens the listener of a server that runs. The process's own connections come
// first: readers may take all the others that the server allows.
func (s *Server) admit(ctx context.Context, srv *server.Server) error {
	if s.config.Listen == "" {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !s.conn.IsConnected() || !s.gate.connected() {
		select {
		case <-poll.C:
		case <-limited.Done():
			return fmt.Errorf("connect to the embedded nats-server: %w", limited.Err())
		}
	}
	listening := make(chan struct{})
	srv.AcceptLoop(listening)
	<-listening
	if reason := s.log.fatal.Load(); reason != nil {
		return fmt.Errorf("start the embedded nats-server on journal.dir %s: %s", s.config.Dir, *reason)
	}
	if address, ok := srv.Addr().(*net.TCPAddr); ok {
		s.port = address.Port
	}
	return nil
}

// freePlaces closes the connections of readers if the process's own cannot come back to a
// server that runs.
func (s *Server) freePlaces(srv *server.Server) {
	if s.config.Listen == "" || s.conn.IsConnected() && s.gate.connected() || srv.NumClients() < maxReaders {
		return
	}
	all, err := srv.Connz(&server.ConnzOptions{Username: true, Limit: maxReaders + ownConns})
	if err != nil {
		return // it is asked again at the next tick
	}
	for _, c := range all.Conns {
		if !slices.Contains([]string{s.identity.public, s.gatekeeper.public, s.requester.public}, c.AuthorizedUser) {
			_ = srv.DisconnectClientByID(c.Cid) // it may be gone
		}
	}
	s.logger.Warn("reader connections closed; informd needs a connection", "count", len(all.Conns))
}

// endFloods closes the connections of readers that send too many requests.
func (s *Server) endFloods(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case cid := <-s.floods:
			s.mu.Lock()
			srv := s.running
			s.mu.Unlock()
			if srv != nil && srv.DisconnectClientByID(cid) == nil {
				s.log.tooMany("client disconnected: it had more than 100 refused requests in a second, or more than 256 pending requests")
			}
		}
	}
}

// shutDown stops a server and waits until it is done.
func shutDown(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// errStarting is what a reconnect gets while there is no server.
var errStarting = errors.New("the embedded nats-server is starting")

// InProcessConn dials whichever server runs at the moment, so that the connection
// outlives any single one. It is for the nats client.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	srv := s.running
	s.mu.Unlock()
	if srv == nil {
		return nil, errStarting
	}
	conn, err := srv.InProcessConn()
	if err != nil {
		return nil, fmt.Errorf("connect in the process: %w", err)
	}
	return conn, nil
}

// queueLen is how many messages a subscription holds for its reader. A pull of the journal
// asks for 2,000 at most. nats.go's default, 65,536, costs 512 KiB for each of thousands
// of targets that read their states at the start.
const queueLen = 4096

// connect returns a connection that goes on for ever. While there is no server,
// publishing fails at once instead of filling a buffer that may be lost.
func (s *Server) connect(as identity) (*nats.Conn, error) {
	conn, err := nats.Connect("",
		nats.Name("informd"),
		nats.InProcessServer(s),
		nats.Timeout(readyTimeout), // on a busy machine the default, 2 s, ended informd at its start
		nats.Nkey(as.public, as.sign),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1),
		nats.SyncQueueLen(queueLen),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(0, 0),
		nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if as.public != s.identity.public && errors.Is(err, nats.ErrSlowConsumer) {
				s.log.tooMany("requests dropped: they arrive faster than informd reads them")
				return
			}
			s.logger.Warn("embedded nats-server connection failed; retrying", "err", err)
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded nats-server: %w", err)
	}
	return conn, nil
}

// identity is the login of a connection inside of the process. It is made anew for
// each process and leaves it never.
type identity struct {
	public string
	sign   nats.SignatureHandler
}

func newIdentity() (identity, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return identity{}, fmt.Errorf("create a login for the embedded nats-server: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return identity{}, fmt.Errorf("create a login for the embedded nats-server: %w", err)
	}
	return identity{public: public, sign: pair.Sign}, nil
}
