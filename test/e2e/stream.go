package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/test/natsserver"
)

// ClusteredSink is the sink bus with a stream of three copies.
func ClusteredSink(servers []*natsserver.Server) string {
	return fmt.Sprintf("- {name: bus, type: nats, servers: %s, subjectPrefix: events, stream: %s, create: {replicas: 3, maxBytes: 256MiB, historyPerObject: 1000}}",
		ServerList(natsserver.URLs(servers)), BusStream)
}

// BusStream is the stream that the sink bus of a [Rig] fills, all of its history.
const BusStream = "EVENTS"

// BusSink is a nats sink into BusStream.
func BusSink(url string) string {
	return fmt.Sprintf("- {name: bus, type: nats, servers: [%q], subjectPrefix: events, stream: %s, create: {historyPerObject: 0}}", url, BusStream)
}

// StreamEnd is the last sequence of a stream.
func StreamEnd(t *testing.T, url, stream string) uint64 {
	t.Helper()
	end, hangUp := streamEnds(t, url, stream)
	defer hangUp()
	return end()
}

// streamEnds is StreamEnd for many calls, over one connection.
func streamEnds(t *testing.T, url, stream string) (end func() uint64, hangUp func()) {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(Patience))
	Must(t, err)
	js, err := jetstream.New(nc)
	Must(t, err)
	return func() uint64 {
		ctx, cancel := context.WithTimeout(t.Context(), Patience)
		defer cancel()
		s, err := js.Stream(ctx, stream)
		Must(t, err)
		return s.CachedInfo().State.LastSeq
	}, nc.Close
}

// DeleteStream deletes a stream, as `nats stream rm` does.
func DeleteStream(t *testing.T, url, stream string) {
	t.Helper()
	nc, err := nats.Connect(url)
	Must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	Must(t, err)
	if err := js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatalf("delete stream %s: %v", stream, err)
	}
}

// ReadStream reads the whole stream of a nats sink.
func ReadStream(t *testing.T, serverURL, stream string) (records []Record) {
	t.Helper()
	for _, m := range readMessages(t, serverURL, stream) {
		r := decodeMessage(t, m)
		if got := m.Headers().Get("Nats-Msg-Id"); got != r.ID {
			t.Errorf("Nats-Msg-Id %s, want %s", got, r.ID)
		}
		records = append(records, r)
	}
	return records
}

// readMessages reads a whole JetStream stream as an independent client would.
func readMessages(t *testing.T, serverURL, stream string) (messages []jetstream.Msg) {
	t.Helper()
	nc, err := nats.Connect(serverURL, nats.Timeout(Patience))
	Must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // the sink is not open yet
	}
	Must(t, err)
	info, err := s.Info(ctx)
	Must(t, err)
	consumer, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	Must(t, err)
	for uint64(len(messages)) < info.State.Msgs {
		batch, err := consumer.Fetch(min(500, int(info.State.Msgs)-len(messages)))
		Must(t, err)
		for m := range batch.Messages() {
			messages = append(messages, m)
		}
		Must(t, batch.Error())
	}
	return messages
}

// decodeMessage decodes the CloudEvents binary mode from scratch.
func decodeMessage(t *testing.T, m jetstream.Msg) Record {
	t.Helper()
	h := func(name string) string {
		value, err := url.PathUnescape(m.Headers().Get("ce-" + name))
		Must(t, err)
		return value
	}
	number := func(name string) uint64 {
		n, err := strconv.ParseUint("0"+h(name), 10, 64)
		Must(t, err)
		return n
	}
	r := Record{
		ID: h("id"), Op: h("op"), Type: h("type"), Group: h("group"), Version: h("version"), Resource: h("resource"), Namespace: h("namespace"), Name: h("name"),
		UID: h("uid"), Kind: h("kind"), ResourceVersion: number("resourceversion"), FromRV: number("fromrv"), ToRV: number("torv"),
		Reason: h("reason"), Recovered: h("recovered"), Trimmed: number("trimmed"),
		PrevResourceVersion: number("prevresourceversion"), Ordinal: number("ordinal"), Run: number("run"), Replay: h("replay") == "true",
	}
	if !r.Control() {
		ns := r.Namespace
		if ns == "" {
			ns = "_"
		}
		token := func(s string) string { return strings.NewReplacer(".", "_").Replace(s) }
		want := fmt.Sprintf(".e2e.%s.%s.%s.%s", token(GroupOrCore(r.Group)), r.Resource, ns, token(r.Name))
		if !strings.HasSuffix(m.Subject(), want) {
			t.Errorf("subject %s, want …%s", m.Subject(), want)
		}
	}
	if len(m.Data()) > 0 {
		if err := json.Unmarshal(m.Data(), &r.Data); err != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
	}
	return r
}
