package lease_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/lease"
)

// deadline bounds every wait; it is for a busy machine and no measure.
const deadline = 30 * time.Second

func timeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

// runServer starts a server with JetStream on a directory; the function stops it.
func runServer(t *testing.T, dir string, port int) (s *server.Server, stop func()) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir,
		JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 1 << 26,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(deadline) {
		t.Fatal("nats-server is not ready")
	}
	stop = sync.OnceFunc(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	t.Cleanup(stop)
	return s, stop
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	conn, err := dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func dial(url string) (*nats.Conn, error) {
	return nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.ReconnectJitter(0, 0), nats.RetryOnFailedConnect(true))
}

func options(holder string, ttl time.Duration) lease.Options {
	return lease.Options{Bucket: "LEASE", Key: "writer", Holder: holder, TTL: ttl, Logger: slog.New(slog.DiscardHandler)}
}

// acquire takes the lease now and gives it up at the end of the test.
func acquire(t *testing.T, conn *nats.Conn, o lease.Options) *lease.Lease {
	t.Helper()
	l, err := lease.Acquire(timeout(t), conn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { release(t, l) })
	return l
}

func release(t *testing.T, l *lease.Lease) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 100*time.Millisecond)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		t.Logf("release: %v", err) // where the test has cut the connection
	}
}

// contend acquires in the background.
func contend(t *testing.T, conn *nats.Conn, o lease.Options) <-chan *lease.Lease {
	t.Helper()
	waiting := make(chan struct{})
	told := sync.OnceFunc(func() { close(waiting) })
	o.Waiting = func(string) { told() }
	held := make(chan *lease.Lease, 1)
	var contending sync.WaitGroup
	contending.Go(func() {
		l, err := lease.Acquire(timeout(t), conn, o)
		if err != nil {
			t.Error(err)
			return
		}
		held <- l
	})
	t.Cleanup(func() {
		contending.Wait()
		select {
		case l := <-held:
			release(t, l)
		default:
		}
	})
	within(t, "the second to wait", waiting)
	return held
}

// within waits for a channel to give something or to be closed.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(deadline):
		t.Fatalf("waited %s for %s", deadline, what)
		panic("not reached")
	}
}

// proxy stands between client and server.
type proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	open  *sync.Cond // data flows
	conns map[net.Conn]bool
	// astray is how many publishes of the lease are still to be lost.
	astray int
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed below
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: target, listener: listener, conns: make(map[net.Conn]bool)}
	p.open = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	t.Cleanup(func() {
		p.drop(listener)
		p.mend()
		p.reset()
		p.running.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("tcp", p.target) //nolint:noctx // local
		if err != nil {
			p.drop(client)
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[upstream] = true, true
		p.mu.Unlock()
		p.running.Go(func() { p.pump(client, upstream) })
		p.running.Go(func() { p.pump(upstream, client) })
	}
}

func (p *proxy) pump(from, to net.Conn) {
	defer p.drop(from, to)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for p.cut {
			p.open.Wait()
		}
		p.divert(buf[:n])
		p.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) drop(conns ...io.Closer) {
	for _, c := range conns {
		c.Close() //nolint:errcheck // to cut it is the point
	}
}

// stall lets nothing through, without a word to either side.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
}

// mend lets everything through again, what was held back included.
func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	p.open.Broadcast()
}

// reset closes all connections.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.drop(c)
		delete(p.conns, c)
	}
}

// lose has the next publishes of lease keys reach no stream, as while a leader is elected.
func (p *proxy) lose(publishes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.astray = publishes
}

// lost reports whether all of them were sent.
func (p *proxy) lost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.astray == 0
}

// divert changes the subject of publishes that are to be lost. p.mu is held.
func (p *proxy) divert(data []byte) {
	for p.astray > 0 {
		at := bytes.Index(data, []byte("PUB $KV.LEASE."))
		if at < 0 {
			return
		}
		copy(data[at:], "PUB $KV.NOONE.")
		p.astray--
	}
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", deadline, what)
		}
	}
}

// holds reports whether the bucket has the lease's key.
func holds(t *testing.T, conn *nats.Conn, o lease.Options) bool {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.KeyValue(timeout(t), o.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	_, err = bucket.Get(timeout(t), o.Key)
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Fatal(err)
	}
	return err == nil
}
