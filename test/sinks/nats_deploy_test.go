package sinks_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/test/natsserver"
)

// startDeployed runs a server with the accounts of deploy/kustomize/overlays/nats,
// and returns the URLs of its two users.
func startDeployed(t *testing.T) (informd, reader string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kustomize/overlays/nats/nats.conf")
	must(t, err)
	_, accounts, ok := strings.Cut(string(text), "\naccounts {")
	if !ok {
		t.Fatal("nats.conf has no accounts")
	}
	t.Setenv("INFORMD_PASSWORD", "p1")
	t.Setenv("READER_PASSWORD", "p2")
	server := natsserver.Start(t, natsserver.Options{
		// The test's own user, as the file says one is added.
		Config:  "accounts {" + strings.Replace(accounts, "users: [", "users: [{user: root, password: r}", 1),
		Connect: []client.Option{client.UserInfo("root", "r")},
	})
	as := func(user string) string { return strings.Replace(server.URL(), "nats://", "nats://"+user+"@", 1) }
	return as("informd:p1"), as("reader:p2")
}

// TestNATSDeployedReader: informd's user fills the stream, the reader reads it to
// the end, live and from the beginning, and nothing that it tries changes it.
func TestNATSDeployedReader(t *testing.T) {
	informd, reader := startDeployed(t)
	s := open(t, config(t, informd, useJetStream))
	events := sinktest.Events(20)
	live := subscribe(t, reader)
	sinktest.Deliver(t, s, events)
	live.wait(t)
	if got := len(live.messages(t)); got != len(events) {
		t.Errorf("%d messages live, want %d", got, len(events))
	}

	conn := dial(t, reader)
	js, err := jetstream.NewWithAPIPrefix(conn, "READ.API")
	must(t, err)
	stream, err := js.Stream(t.Context(), streamName)
	must(t, err)
	consumer, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "app", AckPolicy: jetstream.AckExplicitPolicy})
	must(t, err)
	batch, err := consumer.Fetch(len(events), jetstream.FetchMaxWait(5*time.Second))
	must(t, err)
	for m := range batch.Messages() {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if info, err := consumer.Info(t.Context()); err != nil || info.AckFloor.Stream != uint64(len(events)) {
		t.Errorf("acknowledged %+v (%v), want all %d", info, err, len(events))
	}
	before := stream.CachedInfo().State

	const purge = "$JS.API.STREAM.PURGE." + streamName
	next := "READ.API.CONSUMER.MSG.NEXT." + streamName + ".app2"
	if _, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "app2", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	for subject, reply := range map[string]string{
		"k8s.test.core.pods.shop.web":          "",
		purge:                                  "",
		"READ.API.STREAM.PURGE." + streamName:  "",
		"READ.API.STREAM.DELETE." + streamName: "",
		// The answers would go there.
		"READ.API.STREAM.INFO." + streamName: "k8s.test.core.pods.shop.web",
		next:                                 "k8s.test.core.pods.shop.other",
	} {
		if err := conn.PublishMsg(&client.Msg{Subject: subject, Reply: reply}); err != nil {
			t.Error(err)
		}
	}
	for i, subject := range []string{purge, "k8s.test.core.pods.shop.pushed"} {
		// Whether it is refused or leads nowhere: what counts is the stream below.
		_, _ = conn.Request(fmt.Sprintf("READ.API.CONSUMER.CREATE.%s.push%d", streamName, i), fmt.Appendf(nil,
			`{"stream_name":%q,"config":{"name":"push%d","deliver_subject":%q,"ack_policy":"none"}}`, streamName, i, subject), time.Second)
	}
	sinktest.Deliver(t, s, sinktest.Events(21)[20:])
	info, err := stream.Info(t.Context())
	must(t, err)
	if info.State.LastSeq != before.LastSeq+uint64(1) || info.State.Msgs != info.State.LastSeq {
		t.Errorf("the reader changed the stream: %d messages up to %d, want %d", info.State.Msgs, info.State.LastSeq, len(events)+1)
	}
}
