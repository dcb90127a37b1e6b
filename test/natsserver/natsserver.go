// Package natsserver runs a real nats-server with JetStream for tests, as a
// process of its own on a loopback port with its store in a temp dir. Tests kill,
// freeze and restart it; port and store stay the same.
//
//	server := natsserver.Start(t, natsserver.Options{})
//	conn, err := nats.Connect(server.URL())
//
// The binary is built and cached by package binary of ../cluster. It is not the
// server that informd embeds for its journal, though of the same version.
package natsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/test/cluster/binary"
	"github.com/informd/informd/test/cluster/proc"
)

// connectTimeout bounds one attempt to connect while the server starts.
const connectTimeout = time.Second

// Options of a server. The zero value is a server with JetStream and no
// authentication, in a temp dir.
type Options struct {
	// Dir keeps the store and the log, and is kept at the end. Default: a temp dir.
	Dir string
	// MaxPayload is the largest message in bytes. 0 is the server's default, 1 MiB.
	MaxPayload int
	// MaxStore limits JetStream's files in bytes. 0 leaves it to the server, which
	// takes a share of the free disk space.
	MaxStore int64
	// NoJetStream leaves JetStream off.
	NoJetStream bool
	// SyncAlways makes the server fsync every message before it acknowledges it.
	SyncAlways bool
	// Name is the server's name, which servers of one cluster must not share.
	Name string
	// Config is appended to the configuration file: "authorization {...}".
	Config string
	// Connect is what a client needs beyond the URL, where Config demands it.
	Connect []nats.Option
	// Binary is the nats-server binary. Default: the one package binary finds or
	// builds.
	Binary string
}

// Server is one nats-server. The methods of [proc.Process] are its own: Start,
// Stop, Kill, Freeze, Thaw and the rest.
type Server struct {
	*proc.Process
	options Options
	dir     *proc.Dir
	port    *proc.Port

	closeOnce sync.Once
	closeErr  error
}

// New starts a server and blocks until it accepts connections and JetStream
// answers. ctx bounds the start only. After an error nothing is left; otherwise
// the caller has to Close.
func New(ctx context.Context, options Options) (*Server, error) {
	if options.Binary == "" {
		path, err := binary.NATSServer(ctx)
		if err != nil {
			return nil, fmt.Errorf("start nats-server: %w", err)
		}
		options.Binary = path
	}
	s := &Server{options: options}
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("start nats-server: %w", errors.Join(err, s.Close()))
	}
	if err := s.Process.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Start is New for tests: it fails the test on an error, and closes the server at
// the end of the test. If the test failed by then, the end of the server's log is
// logged.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	s, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("nats-server\n%s", s.LogTail())
		}
		if err := s.Close(); err != nil {
			t.Errorf("close nats-server: %v", err)
		}
	})
	return s
}

// URL returns the URL that clients connect to.
func (s *Server) URL() string { return "nats://" + s.port.Address() }

// Dir returns the directory of the server's store and log.
func (s *Server) Dir() string { return s.dir.Join() }

// StoreDir returns JetStream's directory. Touch it only while the server is down.
func (s *Server) StoreDir() string { return s.dir.Join("store") }

// Close ends the server and removes its files, except those in Options.Dir. A
// server in a temp dir is killed; one with a directory is stopped gracefully.
// Closing again returns the same error.
func (s *Server) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Server) close() error {
	var errs []error
	switch {
	case s.Process == nil:
	case s.dir.Temporary():
		errs = append(errs, s.Kill())
	default:
		errs = append(errs, s.Stop())
	}
	if s.port != nil {
		s.port.Release()
	}
	if s.dir != nil {
		errs = append(errs, s.dir.Close())
	}
	return errors.Join(errs...)
}

func (s *Server) prepare() error {
	var err error
	if s.options.Dir == "" {
		s.dir, err = proc.TempDir("nats")
	} else {
		s.dir, err = proc.OpenDir(s.options.Dir)
	}
	if err != nil {
		return err
	}
	if s.port, err = proc.FreePort(); err != nil {
		return err
	}
	config := s.dir.Join("nats.conf")
	if err := os.WriteFile(config, s.config(), 0o600); err != nil {
		return err
	}
	s.Process = proc.New(proc.Spec{
		Name:  "nats-server",
		Path:  s.options.Binary,
		Args:  []string{"--config", config},
		Log:   s.dir.Join("nats.log"),
		Ready: s.ready,
	})
	return nil
}

func (s *Server) config() []byte {
	config := fmt.Appendf(nil, "listen: %q\nserver_name: %q\n", s.port.Address(), cmp.Or(s.options.Name, "informd-test"))
	if !s.options.NoJetStream {
		config = append(config, s.jetStream()...)
	}
	if s.options.MaxPayload > 0 {
		config = fmt.Appendf(config, "max_payload: %d\n", s.options.MaxPayload)
	}
	return append(append(config, s.options.Config...), '\n')
}

func (s *Server) jetStream() []byte {
	config := fmt.Appendf(nil, "jetstream {\n  store_dir: %q\n", s.StoreDir())
	if s.options.MaxStore > 0 {
		config = fmt.Appendf(config, "  max_file_store: %d\n", s.options.MaxStore)
	}
	if s.options.SyncAlways {
		config = append(config, "  sync_interval: always\n"...)
	}
	return append(config, "}\n"...)
}

// ready connects and sends a request to JetStream: the port opens before streams are
// recovered.
func (s *Server) ready(ctx context.Context) error {
	options := append([]nats.Option{nats.NoReconnect(), nats.Timeout(connectTimeout)}, s.options.Connect...)
	conn, err := nats.Connect(s.URL(), options...)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	if s.options.NoJetStream {
		return nil
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	if _, err := js.AccountInfo(ctx); err != nil {
		return fmt.Errorf("ask JetStream: %w", err)
	}
	return nil
}
