package sinks_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/test/natsserver"
)

const (
	patience   = 60 * time.Second
	maxPayload = 8 << 20
	streamName = "INFORMD_EVENTS"
)

// config returns the options of a sink for the server, with what change does to
// them.
func config(t *testing.T, url string, change func(c *nats.Config)) *nats.Config {
	t.Helper()
	return sinktest.Options(t, nats.Driver(), func(c *nats.Config) {
		c.Servers = connection.NewServers(url)
		c.JetStream = false // unless change says so
	}, change)
}

// useJetStream has the stream keep everything, for the tests to look at.
func useJetStream(c *nats.Config) { c.JetStream, c.Create.HistoryPerObject = true, 0 }

// open opens the sink and closes it at the end of the test, unless the test does.
func open(t *testing.T, c sink.Config) sink.Sink {
	t.Helper()
	return openIn(t, c, sinktest.Env(t))
}

func openIn(t *testing.T, c sink.Config, env sink.Env) sink.Sink {
	t.Helper()
	s, err := c.Open(t.Context(), env)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	once := &closeOnce{Sink: s}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := once.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return once
}

type closeOnce struct {
	sink.Sink
	closed bool
}

func (s *closeOnce) Close(ctx context.Context) error {
	if s.closed {
		return nil
	}
	s.closed = true
	return s.Sink.Close(ctx)
}

// writeFails writes one batch that must fail, within limit.
func writeFails(t *testing.T, s sink.Sink, events []event.Event, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, err := s.Write(ctx, events)
	if err == nil {
		t.Fatal("Write took everything, want an error")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Write had no answer of its own within %v: %v", limit, err)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// dial is a client of the test's own.
func dial(t *testing.T, url string, options ...client.Option) *client.Conn {
	t.Helper()
	closed := make(chan struct{})
	options = append(options, client.MaxReconnects(-1), client.ReconnectWait(20*time.Millisecond),
		client.ClosedHandler(func(*client.Conn) { close(closed) }))
	conn, err := client.Connect(url, options...)
	must(t, err)
	t.Cleanup(func() {
		conn.Close()
		<-closed
	})
	return conn
}

func jetStream(t *testing.T, conn *client.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(conn)
	must(t, err)
	return js
}

// stored reads the whole stream with a plain get by sequence, as an independent
// reader.
func stored(t *testing.T, js jetstream.JetStream, name string) []*jetstream.RawStreamMsg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	must(t, err)
	info, err := stream.Info(ctx)
	must(t, err)
	var all []*jetstream.RawStreamMsg
	for sequence := info.State.FirstSeq; sequence <= info.State.LastSeq && sequence > 0; sequence++ {
		m, err := stream.GetMsg(ctx, sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		must(t, err)
		all = append(all, m)
	}
	return all
}

// inbox collects what a plain subscriber gets.
type inbox struct {
	proven atomic.Pointer[string] // what the last probe to arrive said
	conn   *client.Conn
	mu     sync.Mutex
	got    []*client.Msg
}

func subscribe(t *testing.T, url string) *inbox {
	t.Helper()
	in := &inbox{conn: dial(t, url)}
	sub, err := in.conn.Subscribe("k8s.>", func(m *client.Msg) {
		if m.Subject == probe {
			said := string(m.Data)
			in.proven.Store(&said)
			return
		}
		in.mu.Lock()
		defer in.mu.Unlock()
		in.got = append(in.got, m)
	})
	must(t, err)
	must(t, sub.SetPendingLimits(-1, -1))
	in.wait(t)
	return in
}

// wait returns when the subscription stands at the server and all that the server
// had for it has arrived.
func (in *inbox) wait(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for {
		limited, stop := context.WithTimeout(ctx, time.Second)
		err := in.conn.FlushWithContext(limited)
		stop()
		if err == nil && in.conn.IsConnected() {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the subscriber does not get through: %v", err)
		}
	}
	in.prove(ctx, t)
	handled := make(chan struct{})
	must(t, in.conn.Barrier(func() { close(handled) }))
	<-handled
}

// probe is the subject of messages by which an inbox proves that it is subscribed.
const probe = "k8s.probe"

// prove returns when a message of its own to the inbox arrives: after a server's
// restart an answered ping alone does not say that the subscription stands again,
// nor does a message from before.
func (in *inbox) prove(ctx context.Context, t *testing.T) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	mark := client.NewInbox() // unique
	for {
		if said := in.proven.Load(); said != nil && *said == mark {
			return
		}
		_ = in.conn.Publish(probe, []byte(mark)) // while it reconnects, the next one will do
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatal("the subscriber gets nothing")
		}
	}
}

func (in *inbox) messages(t *testing.T) []*client.Msg {
	t.Helper()
	in.wait(t)
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]*client.Msg(nil), in.got...)
}

func record(t *testing.T, headers client.Header, data []byte) sinktest.Record {
	t.Helper()
	r, err := sinktest.FromHeaders(headers, data)
	must(t, err)
	return r
}

func startServer(t *testing.T) *natsserver.Server {
	t.Helper()
	return natsserver.Start(t, natsserver.Options{MaxPayload: maxPayload})
}
