package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// burst is how long frames wait for each other: the default of informd's maxDelay.
	burst = 50 * time.Millisecond
	// perObject is informd's default of historyPerObject.
	perObject = 16
	// unacknowledged is how many frames wait for the server's answer at most.
	unacknowledged = 1024
	// readyWithin bounds the start of the server.
	readyWithin = 10 * time.Second
)

// journal stores frames in a stream of a nats-server in this process, one subject per object.
// It does nothing else: no durable journal over nats-server can cost less.
type journal struct {
	server *server.Server
	conn   *nats.Conn
	stream jetstream.JetStream
}

func openJournal(ctx context.Context, dir string) (*journal, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "floor", DontListen: true, NoSigs: true, NoLog: true, NoSublistCache: true, JetStream: true, StoreDir: dir,
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(readyWithin) {
		return nil, fmt.Errorf("the nats-server is not ready after %s", readyWithin)
	}
	conn, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return nil, err
	}
	stream, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(unacknowledged))
	if err != nil {
		return nil, err
	}
	_, err = stream.CreateStream(ctx, jetstream.StreamConfig{
		Name: "floor", Subjects: []string{"floor.>"}, Storage: jetstream.FileStorage, MaxMsgsPerSubject: perObject,
		Duplicates: 2 * time.Second, AllowDirect: true,
	})
	return &journal{s, conn, stream}, err
}

// put stores a frame under the name of its object. It does not wait for the server.
func (j *journal) put(frame []byte) error {
	_, rest, _ := bytes.Cut(frame, []byte(`"name":"`))
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	_, err := j.stream.PublishAsync("floor."+string(name), bytes.Clone(frame))
	return err
}

func (j *journal) close() {
	j.conn.Close()
	j.server.Shutdown()
	j.server.WaitForShutdown()
}

// gathering is a connection that reads events together, as informd does: when it has read all
// that is there, it waits for the rest of a burst.
type gathering struct {
	net.Conn
	drained bool
	last    time.Time
}

func dialGathering(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &gathering{Conn: conn}, err
}

// Read implements [net.Conn].
func (g *gathering) Read(p []byte) (int, error) {
	if g.drained {
		<-time.After(burst - time.Since(g.last))
	}
	n, err := g.Conn.Read(p)
	g.drained, g.last = n < len(p), time.Now()
	return n, err
}
