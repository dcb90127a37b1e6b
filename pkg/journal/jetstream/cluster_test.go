package jetstream_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// cluster is three JetStream servers in this process, on loopback.
type cluster struct {
	t *testing.T

	mu      sync.Mutex
	servers []*server.Server
	options []*server.Options
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, servers: make([]*server.Server, 3), options: make([]*server.Options, 3)}
	t.Cleanup(func() {
		for i := range c.servers {
			c.stop(i)
		}
	})
	for attempt := 1; !c.startAll(); attempt++ {
		if attempt == 3 {
			t.Fatal("the servers are not ready")
		}
	}
	until(t, "the servers have a leader", func() bool {
		for _, s := range c.servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(c.servers) {
				return true
			}
		}
		return false
	})
	return c
}

// startAll starts servers on free ports. It returns false if another process has taken one of
// them meanwhile.
func (c *cluster) startAll() bool {
	c.t.Helper()
	var routes []*url.URL
	for i := range c.options {
		o := &server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: freePort(c.t), NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: c.t.TempDir(), JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 16 << 20,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: freePort(c.t)},
		}
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", o.Cluster.Port)})
		c.options[i] = o
	}
	for i, o := range c.options {
		o.Routes = routes
		if !c.start(i) {
			for started := range c.options {
				c.stop(started)
			}
			return false
		}
	}
	return true
}

// freePort is a port that nobody listens on: each server has to know where the others
// will be.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%v is no TCP address", l.Addr())
	}
	return addr.Port
}

// start starts a server. It returns false if the server does not get ready.
func (c *cluster) start(i int) bool {
	c.t.Helper()
	s, err := server.NewServer(c.options[i].Clone())
	if err != nil {
		c.t.Fatal(err)
	}
	s.Start()
	c.mu.Lock()
	c.servers[i] = s
	c.mu.Unlock()
	return s.ReadyForConnections(20 * time.Second)
}

func (c *cluster) stop(i int) {
	c.mu.Lock()
	s := c.servers[i]
	c.servers[i] = nil
	c.mu.Unlock()
	if s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

func (c *cluster) connect() *nats.Conn {
	c.t.Helper()
	var urls []string
	for _, o := range c.options {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
	}
	conn, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.Timeout(30*time.Second), nats.RetryOnFailedConnect(true))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(conn.Close)
	return conn
}

// restartLeader stops the server that leads the stream, and starts it again.
func (c *cluster) restartLeader(stream js.Stream) {
	c.t.Helper()
	leader := -1
	until(c.t, "the stream has a leader", func() bool { // an election loses requests
		info, err := stream.Info(c.t.Context())
		if err == nil && info.Cluster != nil {
			leader = slices.IndexFunc(c.options, func(o *server.Options) bool { return o.ServerName == info.Cluster.Leader })
		}
		return leader >= 0
	})
	c.stop(leader)
	if !c.start(leader) {
		c.t.Fatal("the server is not ready again")
	}
}

// TestReplicated: with three copies, that somebody else has made, what comes to be while
// leaders go is read to its end by a sink, by one that begins with a snapshot, and by one
// that asks for the states again.
func TestReplicated(t *testing.T) {
	c := newCluster(t)
	client, err := js.New(c.connect())
	if err != nil {
		t.Fatal(err)
	}
	config := jetstream.Config{
		Conn: c.connect(), Cluster: "test", Stream: "INFORMD", SubjectPrefix: "k8s", Replicas: 3,
		HistoryPerObject: 4, DeletedRetention: time.Hour, Logger: slog.New(slog.DiscardHandler),
	}
	open := func() *jetstream.Journal {
		j, err := jetstream.Open(context.WithoutCancel(t.Context()), config)
		if err != nil {
			t.Fatal(err)
		}
		j.SetCloseTimeout(patience)
		return j
	}
	mustClose(t, open())
	config.Replicas = 0
	j := open()
	t.Cleanup(func() { mustClose(t, j) })
	var stream js.Stream
	until(t, "the stream is found", func() bool {
		stream, err = client.Stream(t.Context(), "INFORMD")
		return err == nil
	})
	if n := stream.CachedInfo().Config.Replicas; n != 3 {
		t.Fatalf("the stream has %d copies", n)
	}

	follows := mustOpen(t, j, "follows", journal.FromNow)
	var now clock
	objects := make([]*object, 100)
	var snapshot journal.Cursor
	for round := range 6 {
		for i := range objects {
			op := event.Modified
			switch {
			case round == 0:
				objects[i] = &object{name: fmt.Sprint("o", i)}
				op = event.Added
			case objects[i].ordinal == 0:
				op = event.Added
			case (i+round)%10 == 0:
				op = event.Deleted
			}
			mustAppend(t, j, objects[i].event(&now, op))
			if op == event.Deleted {
				objects[i].ordinal = 0
			}
		}
		switch round {
		case 1:
			snapshot = mustOpen(t, j, "snapshot", journal.FromSnapshot)
		case 2, 4:
			c.restartLeader(stream)
		}
	}
	at := readToTheEnd(t, j, follows)
	compare(t, "the one that follows", at, objects)
	compare(t, "the one that begins with a snapshot", readToTheEnd(t, j, snapshot), objects)
	mustResnapshot(t, follows, again(7, "core/configmaps"))
	repeated := make(map[string]uint64)
	for ended := false; !ended; {
		e := read(t, follows, 1)[0].Event
		if ended = strings.HasSuffix(e.ID, ":synced:r7"); !e.Op.Control() {
			repeated[e.Name] = e.ResourceVersion
		}
	}
	compare(t, "the one that asks again", repeated, objects)
}

// readToTheEnd reads and commits what the log has, and returns the revisions of the
// objects that are alive. It complains about a gap.
func readToTheEnd(t *testing.T, j journal.Journal, c journal.Cursor) map[string]uint64 {
	t.Helper()
	at := make(map[string]uint64)
	last := j.Stats().LastSeq
	for passed := uint64(0); passed < last; {
		entry := read(t, c, 1)[0]
		switch e := entry.Event; {
		case e.Op == event.Gap:
			t.Errorf("there is a gap: %s", show([]journal.Entry{entry}))
		case e.Op.Ends():
			delete(at, e.Name)
		case !e.Op.Control():
			at[e.Name] = e.ResourceVersion
		}
		if entry.Seq > 0 {
			passed = entry.Seq
			mustCommit(t, c, passed)
		}
	}
	return at
}

func compare(t *testing.T, who string, at map[string]uint64, objects []*object) {
	t.Helper()
	for _, o := range objects {
		want := o.prev
		if o.ordinal == 0 {
			want = 0
		}
		if at[o.name] != want {
			t.Errorf("%s has %s at %d, want %d", who, o.name, at[o.name], want)
		}
	}
}
