package view

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// message is one of a stream, as a consumer gets it.
type message struct {
	jetstream.Msg

	header   nats.Header
	sequence jetstream.SequencePair
}

func (m message) Headers() nats.Header { return m.header }

func (m message) Data() []byte { return nil }

func (m message) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: m.sequence}, nil
}

// TestComplete: the end of a snapshot is not enough. The stream may have trimmed the events
// of an object that were before it.
func TestComplete(t *testing.T) {
	v := &View{table: newTable()}
	v.begin(time.Unix(1, 0), 9)
	delivered := uint64(0)
	take := func(op string, sequence uint64) {
		t.Helper()
		header := nats.Header{}
		for name, value := range map[string]string{"op": op, "cluster": "c", "resource": "pods", "subject": "core/pods", "run": "7", "name": op} {
			header["ce-"+name] = []string{value}
		}
		var err error
		m := message{header: header, sequence: jetstream.SequencePair{Consumer: delivered + 1, Stream: sequence}}
		if delivered, err = v.take(m, delivered); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, want bool) {
		t.Helper()
		if got := v.Complete("c", "core/pods"); got != want || len(v.Targets("c")) == 1 != want {
			t.Errorf("%s: complete is %v, %v", when, got, v.Targets("c"))
		}
	}
	take("begin", 3)
	take("synced", 4)
	expect("behind the end of the snapshot", false)
	take("added", 6)
	expect("before the end of the stream", false)
	take("added", 9)
	expect("at what was the end of the stream", true)
	v.begin(time.Unix(2, 0), 20)
	expect("in another stream", true)
}

// logged gets each line of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// serve starts a server and connects to it.
func serve(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	conn, err := nats.Connect(s.ClientURL(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// TestOutageIsLogged: the log has the beginning and the end of each outage, also if one has
// the same cause as the one before.
func TestOutageIsLogged(t *testing.T) {
	conn := serve(t)
	log := make(logged, 1000)
	v, err := New(conn, Options{Stream: "S", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the view ended: %v", err)
		}
	}()
	wait := func(text string) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case line := <-log:
				if strings.Contains(line, text) {
					return
				}
			case <-deadline:
				t.Fatalf("the log lacks %q", text)
			}
		}
	}
	const missing, again = "find stream: ", "reading the stream again"
	wait(missing)
	create := func() {
		t.Helper()
		if _, err := v.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"events.>"}}); err != nil {
			t.Fatal(err)
		}
	}
	create()
	wait(again)
	if err := v.js.DeleteStream(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	wait(missing)
	create()
	wait(again)
}

// TestIdle: that no message came for a while is not enough for the end of the stream.
func TestIdle(t *testing.T) {
	conn := serve(t)
	v, err := New(conn, Options{Stream: "S"})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := v.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"events.>"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.js.Publish(t.Context(), "events.one", nil); err != nil {
		t.Fatal(err)
	}
	v.begin(stream.CachedInfo().Created, 1)
	consumer, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, delivered uint64, want bool) {
		t.Helper()
		if err := v.idle(t.Context(), stream, consumer, delivered); err != nil || v.reached != want {
			t.Errorf("%s: the end is reached: %v, %v", when, v.reached, err)
		}
	}
	expect("a message is pending", 0, false)
	if _, err := consumer.Next(); err != nil {
		t.Fatal(err)
	}
	expect("a message is on its way", 0, false)
	expect("all messages came", 1, true)
}

// TestPage: the messages on the page are those that the view reads.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/materialised-view.md")
	if err != nil {
		t.Fatal(err)
	}
	table := newTable()
	var began []target
	for _, block := range regexp.MustCompile("(?s)```text\n(.*?)```").FindAllSubmatch(page, -1) {
		header, body := nats.Header{}, ""
		for line := range strings.Lines(string(block[1])) {
			name, value, isHeader := strings.Cut(strings.TrimSpace(line), ": ")
			switch {
			case isHeader && strings.HasPrefix(name, "ce-"):
				header[name] = []string{value}
			case strings.HasPrefix(line, "{"):
				body = line
			}
		}
		e, err := decode(header, []byte(body))
		if err != nil {
			t.Fatalf("%v in:\n%s", err, block[1])
		}
		table.apply(e)
	}
	for one := range maps.Keys(table.snapshots) {
		began = append(began, one)
	}
	if want := (target{"prod-eu1", "apps/deployments"}); len(began) != 1 || began[0] != want {
		t.Errorf("the page begins snapshots of %v, want %v", began, want)
	}
	row := table.rows[Key{"prod-eu1", "apps", "deployments", "shop", "web"}]
	if row == nil || row.UID == "" || row.At.ResourceVersion == 0 || row.At.Ordinal == 0 || len(row.JSON) == 0 {
		t.Errorf("the page makes the row %+v", row)
	}
}
