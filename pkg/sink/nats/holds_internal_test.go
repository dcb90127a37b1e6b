package nats

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// slowConsumer has messages, and delivers the first of them after a while.
type slowConsumer struct {
	jetstream.Consumer

	pending uint64
	after   time.Duration
}

func (c *slowConsumer) CachedInfo() *jetstream.ConsumerInfo {
	return &jetstream.ConsumerInfo{NumPending: c.pending}
}

func (c *slowConsumer) Messages(...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	return slowMessages{after: c.after}, nil
}

type slowMessages struct {
	jetstream.MessagesContext

	after time.Duration
}

func (c slowMessages) Next(...jetstream.NextOpt) (jetstream.Msg, error) {
	if c.after > holdsWait {
		<-time.After(holdsWait + 1)
		return nil, context.DeadlineExceeded
	}
	<-time.After(c.after)
	return onlyMessage{}, nil
}

func (slowMessages) Stop() {}

type onlyMessage struct{ jetstream.Msg }

func (onlyMessage) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Consumer: 1, Stream: 3}}, nil
}
func (onlyMessage) Data() []byte { return nil }
func (onlyMessage) Headers() client.Header {
	return form{prefix: "k8s", format: Binary}.message(&event.Event{
		ID: event.ObjectID("u", 3, 0), Op: event.Added, Time: time.Unix(1_700_000_000, 0), Cluster: "c", Target: "core/pods",
		Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "n", Name: "a", UID: "u", ResourceVersion: 3, Ordinal: 1,
	}).Header
}

// TestHoldsOfASlowServer: a read that brings nothing is the end only if the server has no
// more. Otherwise a slow server would make objects look as if they were missing.
func TestHoldsOfASlowServer(t *testing.T) {
	for name, c := range map[string]struct {
		consumer *slowConsumer
		objects  int
		err      string
	}{
		"nothing there": {&slowConsumer{after: time.Hour}, 0, ""},
		"slow":          {&slowConsumer{pending: 1, after: holdsWait / 2}, 1, ""},
		"silent":        {&slowConsumer{pending: 1, after: time.Hour}, 0, "read stream S: the server has 1 more messages and delivers none; try again"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects := 0
				err := (&Config{Stream: "S"}).readHeld(t.Context(), c.consumer, 9, func(h event.Event) error {
					if h.Name != "a" {
						return errors.New(h.Name)
					}
					objects++
					return nil
				})
				if objects != c.objects || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasSuffix(err.Error(), c.err)) {
					t.Errorf("%d objects, %v; want %d, %q", objects, err, c.objects, c.err)
				}
			})
		})
	}
}

// TestHoldsWithoutAServer: the error says what is wrong with the connection.
func TestHoldsWithoutAServer(t *testing.T) {
	c := &Config{JetStream: true, Stream: "S", SubjectPrefix: "k8s"}
	c.Servers = connection.NewServers("nats://127.0.0.1:1")
	err := c.Holds(t.Context(), sink.Env{Name: "bus", Cluster: "test"}, func(event.Event) error { return nil })
	if err == nil || !strings.HasPrefix(err.Error(), "connect: ") {
		t.Errorf("%v", err)
	}
}
