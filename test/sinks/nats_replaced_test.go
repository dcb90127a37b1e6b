package sinks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/test/natsserver"
)

// replaceable is an open sink, a second connection to its server, and the identities that sinks of that
// server have found, without repetitions.
type replaceable struct {
	url   string
	sink  sink.Sink
	js    jetstream.JetStream
	found []string
	next  int // the event to write
}

func newReplaceable(t *testing.T) *replaceable {
	t.Helper()
	r := &replaceable{url: natsserver.Start(t, natsserver.Options{}).URL()}
	var err error
	if r.js, err = jetstream.New(dial(t, r.url)); err != nil {
		t.Fatal(err)
	}
	r.sink = r.open(t, useJetStream)
	return r
}

// open opens a sink of that server.
func (r *replaceable) open(t *testing.T, change func(*nats.Config)) sink.Sink {
	t.Helper()
	env := sinktest.Env(t)
	env.Found = func(identity string) { r.found = slices.Compact(append(r.found, identity)) }
	return openIn(t, config(t, r.url, change), env)
}

// write writes the next event.
func (r *replaceable) write(t *testing.T, to sink.Sink) error {
	t.Helper()
	n, err := to.Write(t.Context(), sinktest.Events(r.next + 1)[r.next:])
	r.next += n
	return err
}

// replace deletes the stream, and creates it again with the messages of another cluster.
func (r *replaceable) replace(t *testing.T, messages int) {
	t.Helper()
	stream, err := r.js.Stream(t.Context(), streamName)
	must(t, err)
	must(t, r.js.DeleteStream(t.Context(), streamName))
	if _, err := r.js.CreateStream(t.Context(), stream.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if _, err := r.js.Publish(t.Context(), fmt.Sprintf("k8s.other.%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// until writes an event now and then until the result of a write is the expected one: the sink relies for
// half a minute on what it has read of the stream.
func (r *replaceable) until(t *testing.T, what string, done func(error) bool) {
	t.Helper()
	deadline, again := time.After(patience), time.NewTicker(100*time.Millisecond)
	defer again.Stop()
	for !done(r.write(t, r.sink)) {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("%s: not within %v; the sink found %q", what, patience, r.found)
		}
	}
}

// TestReplacedStream: what happens to the stream below a sink is found.
func TestReplacedStream(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *replaceable){
		"fuller": testFullerStream, "emptier": testEmptierStream, "other settings": testStreamOfOtherSettings, "other subjects": testOtherSubjects,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait
			r := newReplaceable(t)
			for range 3 {
				must(t, r.write(t, r.sink))
			}
			test(t, r)
		})
	}
}

// testFullerStream: another cluster's informd creates the stream again, and fills it with more than it
// had. The acknowledgements do not show it.
func testFullerStream(t *testing.T, r *replaceable) {
	r.replace(t, 1000)
	r.until(t, "another identity", func(err error) bool { return err == nil && len(r.found) == 2 })
}

// testEmptierStream: the next sequence of the stream is one that the stream before had. That shows at once.
func testEmptierStream(t *testing.T, r *replaceable) {
	r.replace(t, 1)
	must(t, r.write(t, r.sink))
	if len(r.found) != 2 {
		t.Errorf("the sink found %q, want two identities", r.found)
	}
}

// testStreamOfOtherSettings: the settings of the stream change under the sink. The sink refuses to send,
// keeps the event, and sends when the settings are as before.
func testStreamOfOtherSettings(t *testing.T, r *replaceable) {
	change := func(discard jetstream.DiscardPolicy) {
		t.Helper()
		stream, err := r.js.Stream(t.Context(), streamName)
		must(t, err)
		changed := stream.CachedInfo().Config
		changed.Discard, changed.MaxMsgs = discard, 1_000_000
		if _, err := r.js.UpdateStream(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
	}
	change(jetstream.DiscardOld)
	r.until(t, "the setting", func(err error) bool { return err != nil && strings.Contains(err.Error(), "discard policy is old") })
	n := r.next
	if err := r.write(t, r.sink); err == nil || r.next != n {
		t.Fatalf("Write: %v, %d events taken, want none and the setting", err, r.next-n)
	}
	change(jetstream.DiscardNew)
	if err := r.write(t, r.sink); err != nil {
		t.Error(err)
	}
}

// testOtherSubjects: the consumers of a new subjectPrefix have no events.
func testOtherSubjects(t *testing.T, r *replaceable) {
	more := r.open(t, func(c *nats.Config) {
		useJetStream(c)
		c.SubjectPrefix = "k8s.more"
	})
	must(t, r.write(t, more))
	if len(r.found) != 2 {
		t.Errorf("the sinks found %q, want two identities", r.found)
	}
}
