package nats

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// replaceable is an open sink, a second connection to its server, and the identities that the
// sink has found.
type replaceable struct {
	sink  *streamSink
	js    jetstream.JetStream
	found []string
}

func newReplaceable(t *testing.T) *replaceable {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("nats-server is not ready")
	}
	conn, err := client.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	r := new(replaceable)
	if r.js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	c, ok := Driver().New().(*Config)
	if !ok {
		t.Fatal("the driver's options are no *Config")
	}
	c.Servers = connection.NewServers(s.ClientURL())
	env := sinktest.Env(t)
	env.Found = func(identity string) { r.found = append(r.found, identity) }
	opened, err := c.Open(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if r.sink, ok = opened.(*streamSink); !ok {
		t.Fatalf("the sink is a %T", opened)
	}
	return r
}

// write writes the i-th event, which the stream must take.
func (r *replaceable) write(t *testing.T, i int) {
	t.Helper()
	if _, err := r.sink.Write(t.Context(), sinktest.Events(i + 1)[i:]); err != nil {
		t.Fatal(err)
	}
}

// replace deletes the stream, and creates it again with the messages of another cluster.
func (r *replaceable) replace(t *testing.T, messages int) {
	t.Helper()
	if err := r.js.DeleteStream(t.Context(), defaultStream); err != nil {
		t.Fatal(err)
	}
	if _, err := r.js.CreateStream(t.Context(), r.sink.config); err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if _, err := r.js.Publish(t.Context(), fmt.Sprintf("k8s.other.%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// expire lets streamAge pass.
func (r *replaceable) expire() { r.sink.dest.read = r.sink.dest.read.Add(-streamAge) }

// identities counts the identities that the sink has found, one after the other.
func (r *replaceable) identities() int {
	n, last := 0, ""
	for _, identity := range r.found {
		if identity != last {
			n, last = n+1, identity
		}
	}
	return n
}

// TestFullerStreamIsFound: another cluster's informd creates the stream again, and fills it
// with more than it had. The acknowledgements do not show it.
func TestFullerStreamIsFound(t *testing.T) {
	r := newReplaceable(t)
	for i := range 3 {
		r.write(t, i)
	}
	r.replace(t, 100)
	r.write(t, 3)
	r.expire()
	r.write(t, 4)
	if r.identities() != 2 {
		t.Errorf("the sink found %q, want two identities", r.found)
	}
	n := len(r.found)
	r.write(t, 5)
	if len(r.found) != n {
		t.Error("the sink reads the stream with each write")
	}
}

// TestEmptierStreamIsFoundAtOnce: the stream is replaced just after the sink has read it. Its
// next sequence is one that the stream before had.
func TestEmptierStreamIsFoundAtOnce(t *testing.T) {
	r := newReplaceable(t)
	for i := range 3 {
		r.write(t, i)
	}
	r.expire()
	if err := r.sink.locate(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.replace(t, 1)
	r.write(t, 3)
	if r.identities() != 2 {
		t.Errorf("the sink found %q, want two identities", r.found)
	}
}

// TestStreamOfOtherSettingsIsFound: the settings of the stream change under the sink. The sink
// refuses to send, keeps the event, and sends when the settings are as before.
func TestStreamOfOtherSettingsIsFound(t *testing.T) {
	r := newReplaceable(t)
	r.write(t, 0)
	change := func(discard jetstream.DiscardPolicy) {
		t.Helper()
		changed := r.sink.config
		changed.Discard, changed.MaxMsgs = discard, 1_000_000
		if _, err := r.js.UpdateStream(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
	}
	change(jetstream.DiscardOld)
	r.expire()
	n, err := r.sink.Write(t.Context(), sinktest.Events(2)[1:])
	if n != 0 || err == nil || !strings.Contains(err.Error(), "discard policy is old") {
		t.Fatalf("Write = %d, %v, want 0 and the setting", n, err)
	}
	change(jetstream.DiscardNew)
	r.write(t, 1)
}

// TestOtherSubjectsAreAnotherDestination: the consumers of a new subjectPrefix have no events.
func TestOtherSubjectsAreAnotherDestination(t *testing.T) {
	r := newReplaceable(t)
	r.write(t, 0)
	r.sink.form.prefix = "k8s.more"
	r.expire()
	r.write(t, 1)
	if r.identities() != 2 {
		t.Errorf("the sink found %q, want two identities", r.found)
	}
}
