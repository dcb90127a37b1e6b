package jetstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// BenchmarkPublish compares what Append does, an acknowledgement for each message, with
// fast batch publishing of the same messages: 5 KB, one of each object (a first list) or
// of 10,000 objects in turn, each on the condition of the subject's last sequence. The
// server is in this process or in one of its own. cpu-us/op is the processor time of
// both together, client-us/op that of this process. Take as many as there are:
//
//	go test ./pkg/journal/jetstream -run '^$' -bench Publish -benchtime 100000x
func BenchmarkPublish(b *testing.B) {
	for _, place := range []string{"embedded", "process"} {
		for _, objects := range []int{1_000_000, 10_000} {
			for _, way := range ways() {
				b.Run(fmt.Sprintf("%s/objects=%d/%s", place, objects, way.name), func(b *testing.B) {
					p := newPublishing(b, place, objects)
					p.measure(func() { way.publish(p) })
				})
			}
		}
	}
}

// publishBatch is how many events an Append has in a first list.
const publishBatch = 64

type way struct {
	name    string
	publish func(p *publishing)
}

func ways() []way {
	return []way{
		{"append", func(p *publishing) { p.appendAll(1) }},
		{"append-8", func(p *publishing) { p.appendAll(8) }}, // targets at a time
		{"async", (*publishing).async},
		{"ingest-64", func(p *publishing) { p.ingest(publishBatch, publishBatch, 1) }},
		{"ingest-64-8", func(p *publishing) { p.ingest(publishBatch, publishBatch, 8) }}, // batches at a time
		{"ingest-long", func(p *publishing) { p.ingest(p.b.N, 500, 1) }},
	}
}

type publishing struct {
	b       *testing.B
	conn    *nats.Conn
	config  jetstream.Config
	objects int
	body    []byte
	process int // of the server, 0: this one
}

func newPublishing(b *testing.B, place string, objects int) *publishing {
	p := &publishing{b: b, objects: objects, body: []byte(`{"object":"` + strings.Repeat("x", 5000) + `"}`)}
	h := newHost(b)
	p.config = h.config()
	p.conn = p.config.Conn
	if place == "process" {
		p.process, p.conn = serverProcess(b)
		p.config.Conn = p.conn
	}
	client, err := js.New(p.conn)
	if err != nil {
		b.Fatal(err)
	}
	_, err = client.CreateStream(b.Context(), js.StreamConfig{
		Name: p.config.Stream, Subjects: []string{"k8s.test.>"}, Discard: js.DiscardNew, AllowDirect: true,
		MaxMsgsPerSubject: p.config.HistoryPerObject, Duplicates: 2 * time.Second, AllowBatchPublish: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// measure runs what publishes b.N events.
func (p *publishing) measure(publish func()) {
	own, other := ownTime(p.b), p.serverTime()
	p.b.ResetTimer()
	publish()
	p.b.StopTimer()
	own, other = ownTime(p.b)-own, p.serverTime()-other
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(p.b.N) }
	p.b.ReportMetric(per(own+other), "cpu-us/op")
	if p.process != 0 {
		p.b.ReportMetric(per(own), "client-us/op")
	}
}

// event is the nth of the run.
func (p *publishing) event(n int) event.Event {
	o := &object{name: fmt.Sprint("object-", n%p.objects), prev: uint64(n), ordinal: uint64(n / p.objects)}
	o.uid = o.name
	e := o.event(&clock{rv: uint64(n)}, event.Modified)
	e.Data = p.body
	return e
}

// message is that of the nth event. Each has a sequence of its own in the log.
func (p *publishing) message(n int) *nats.Msg {
	e := p.event(n)
	m := p.config.Message(&e)
	last := 0
	if n >= p.objects {
		last = n - p.objects + 1
	}
	m.Header[js.ExpectedLastSubjSeqHeader] = []string{strconv.Itoa(last)}
	return m
}

// appendAll is the journal's own way, with so many targets at a time, each of which
// has objects of its own.
func (p *publishing) appendAll(targets int) {
	j, err := jetstream.Open(p.b.Context(), p.config)
	if err != nil {
		p.b.Fatal(err)
	}
	var all sync.WaitGroup
	for t := range targets {
		all.Go(func() {
			batch := make([]event.Event, 0, publishBatch)
			for n := t; n < p.b.N; n += targets {
				e := p.event(n)
				e.PrevResourceVersion, e.Op = 0, event.Added // what the log has is not asked about
				if batch = append(batch, e); len(batch) == cap(batch) || n+targets >= p.b.N {
					mustAppend(p.b, j, batch...)
					batch = batch[:0]
				}
			}
		})
	}
	all.Wait()
	mustClose(p.b, j)
}

// async is the client library's way alone, without the journal around it.
func (p *publishing) async() {
	client, err := js.New(p.conn, js.WithPublishAsyncMaxPending(512), js.WithPublishAsyncErrHandler(func(_ js.JetStream, m *nats.Msg, err error) {
		p.b.Errorf("publish %s: %v", m.Subject, err)
	}))
	if err != nil {
		p.b.Fatal(err)
	}
	for n := range p.b.N {
		if _, err := client.PublishMsgAsync(p.message(n), js.WithRetryAttempts(0), js.WithStallWait(time.Minute)); err != nil {
			p.b.Fatal(err)
		}
	}
	<-client.PublishAsyncComplete()
	client.CleanupPublisher()
}

// ingest publishes batches, so many at a time.
func (p *publishing) ingest(size, flow, open int) {
	g, err := newIngester(p.conn)
	if err != nil {
		p.b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.b.Context(), 5*time.Minute)
	defer cancel()
	var under []*ingest
	for n := 0; n < p.b.N || len(under) > 0; {
		if n < p.b.N && len(under) < open {
			i := g.begin(flow)
			for end := min(n+size, p.b.N); n < end; n++ {
				if err := i.publish(ctx, p.message(n), n == end-1); err != nil {
					p.b.Fatal(err)
				}
			}
			under = append(under, i)
			continue
		}
		if _, err := under[0].wait(ctx); err != nil {
			p.b.Fatal(err)
		}
		under = under[1:]
	}
}

func ownTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverTime is the processor time of the server's process, in steps of 10 ms.
func (p *publishing) serverTime() time.Duration {
	if p.process == 0 {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.process))
	if err != nil {
		p.b.Skip("the processor time of another process is read from /proc:", err)
	}
	// The second field is a name in brackets; utime and stime are 14 and 15.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			p.b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// serverDir tells the test's own binary to be a server that keeps its streams in that
// directory.
const serverDir = "INFORMD_TEST_SERVER"

// serverProcess runs a server in a process of its own, and connects to it.
func serverProcess(b *testing.B) (int, *nats.Conn) {
	b.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), serverDir+"="+b.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		b.Fatalf("the server's process: %v", err)
	}
	conn, err := nats.Connect(strings.TrimSpace(url), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1))
	b.Cleanup(func() {
		if conn != nil {
			conn.Close()
		}
		_ = in.Close() // tells it to end
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			b.Errorf("the server's process: %v", err)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	return cmd.Process.Pid, conn
}

// serveUntilClosed is a server whose address it prints, until its input is closed.
func serveUntilClosed(dir string) error {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
		JetStreamMaxStore: 2 << 30, JetStreamMaxMemory: 16 << 20,
	})
	if err != nil {
		return err
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		return errors.New("the server is not ready")
	}
	if _, err := fmt.Fprintln(os.Stdout, s.ClientURL()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
