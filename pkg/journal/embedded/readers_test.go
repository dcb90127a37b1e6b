package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/embedded"
)

// listening starts a server with a listener, whose journal has ten messages and
// whose stream of records has one, and a reader. What the reader may not do goes
// to refused.
func listening(t *testing.T, c embedded.Config) (s *embedded.Server, reader *nats.Conn, refused chan error) {
	t.Helper()
	c.Listen, c.Events = "127.0.0.1:0", "k8s.>"
	s = start(t, c)
	create(t, s)
	publish(t, s, 0, 10)
	_, err := js(t, s.Conn()).CreateStream(timeout(t), jetstream.StreamConfig{Name: stream + "_STATE", Subjects: []string{stream + "_STATE.>"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js(t, s.Conn()).Publish(timeout(t), stream+"_STATE.sink.out", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	refused = make(chan error, 16)
	reader, err = nats.Connect(s.URL(), nats.Timeout(deadline), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	return s, reader, refused
}

// lastOf returns the last sequence of a stream.
func lastOf(t *testing.T, s *embedded.Server, name string) uint64 {
	t.Helper()
	st, err := js(t, s.Conn()).Stream(timeout(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return st.CachedInfo().State.LastSeq
}

// fetch reads with a consumer that is pulled from.
func fetch(t *testing.T, reader *nats.Conn, n int) {
	t.Helper()
	var consumer jetstream.Consumer
	eventually(t, "a consumer", func() bool { // the gate drops requests of all readers while its queue is full
		ctx, cancel := context.WithTimeout(t.Context(), deadline/6)
		defer cancel()
		st, err := js(t, reader).Stream(ctx, stream)
		if err == nil {
			consumer, err = st.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: deadline})
		}
		if err != nil {
			t.Logf("no consumer yet: %v", err)
		}
		return err == nil
	})
	batch, err := consumer.Fetch(n, jetstream.FetchMaxWait(deadline))
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for m := range batch.Messages() {
		if !strings.HasPrefix(m.Subject(), "k8s.") {
			t.Errorf("a message of %s", m.Subject())
		}
		if err := m.DoubleAck(timeout(t)); err != nil {
			t.Errorf("acknowledge: %v", err)
		}
		got++
	}
	if got != n {
		t.Errorf("%d of %d messages: %v", got, n, batch.Error())
	}
}

// The server writes answers and deliveries where a client tells it, whatever the
// client itself may publish. None of that gets into a stream.
func TestReaderWritesThroughServer(t *testing.T) {
	s, reader, _ := listening(t, config(t.TempDir()))
	const record = stream + "_STATE.sink.out"
	events, records := lastOf(t, s, stream), lastOf(t, s, stream+"_STATE")

	for name, subject := range map[string]string{
		"ephemeral": "$JS.API.CONSUMER.CREATE." + stream,
		"named":     "$JS.API.CONSUMER.CREATE." + stream + ".thief",
		"durable":   "$JS.API.CONSUMER.DURABLE.CREATE." + stream + ".thief",
	} {
		for _, deliver := range []string{record, "k8s.c.core.pods.ns.p3", "_INBOX.any"} {
			for _, body := range []string{
				`{"stream_name":"INFORMD","config":{"name":"thief","durable_name":"thief","ack_policy":"none","deliver_subject":"` + deliver + `"}}`,
				`{"stream_name":"INFORMD","config":{"name":"thief","durable_name":"thief","ack_policy":"none"},"CONFIG":{"Deliver_Subject":"` + deliver + `"}}`,
			} {
				answer, err := reader.RequestWithContext(timeout(t), subject, []byte(body))
				if err != nil {
					t.Fatal(err)
				}
				var got struct {
					Error *jetstream.APIError `json:"error"`
				}
				if err := json.Unmarshal(answer.Data, &got); err != nil || got.Error == nil || !strings.Contains(got.Error.Description, "only pull consumers") {
					t.Errorf("%s to %s: %s", name, deliver, answer.Data)
				}
			}
		}
	}
	for _, reply := range []string{record, "k8s.c.core.pods.ns.p3"} {
		for subject, body := range map[string]string{
			"$JS.API.INFO":                                    "",
			"$JS.API.STREAM.INFO." + stream:                   "",
			"$JS.API.STREAM.MSG.GET." + stream:                `{"seq":1}`,
			"$JS.API.DIRECT.GET." + stream:                    `{"seq":1}`,
			"$JS.API.CONSUMER.NAMES." + stream:                "",
			"$JS.API.CONSUMER.CREATE." + stream:               `{"stream_name":"INFORMD","config":{"ack_policy":"none"}}`,
			"$JS.API.CONSUMER.CREATE." + stream + ".puller":   `{"stream_name":"INFORMD","config":{"name":"puller","ack_policy":"none"}}`,
			"$JS.API.CONSUMER.MSG.NEXT." + stream + ".puller": "5",
		} {
			if err := reader.PublishRequest(subject, reply, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	fetch(t, reader, 10) // by then the server has done all of that
	if n := lastOf(t, s, stream); n != events {
		t.Errorf("a reader wrote %d events", n-events)
	}
	if n := lastOf(t, s, stream+"_STATE"); n != records {
		t.Errorf("a reader wrote %d records", n-records)
	}
}

// A reader can change and delete consumers that readers have made, and none of the
// process's own, which would leave out messages with another filter.
func TestReaderLeavesConsumersAlone(t *testing.T) {
	s, reader, _ := listening(t, config(t.TempDir()))
	made := func(conn *nats.Conn) jetstream.Consumer {
		st, err := js(t, conn).Stream(timeout(t), stream)
		if err != nil {
			t.Fatal(err)
		}
		c, err := st.CreateConsumer(timeout(t), jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: deadline})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const filtered = `{"stream_name":"INFORMD","config":{"name":"%[1]s","durable_name":"%[2]s","ack_policy":"none","inactive_threshold":15000000000,"filter_subject":"k8s.c.core.pods.ns.p3"}}`
	for whose, conn := range map[string]*nats.Conn{"own": s.Conn(), "theirs": reader} {
		own := whose == "own"
		name := made(conn).CachedInfo().Name
		for subject, body := range map[string]string{
			"CREATE." + stream + "." + name + ".k8s.c.core.pods.ns.p3": fmt.Sprintf(filtered, name, ""),
			"CREATE." + stream + "." + name:                            fmt.Sprintf(filtered, name, ""),
			"CREATE." + stream:                                         fmt.Sprintf(filtered, name, ""),
			"DURABLE.CREATE." + stream + "." + name:                    fmt.Sprintf(filtered, name, name),
		} {
			answer, err := reader.RequestWithContext(timeout(t), "$JS.API.CONSUMER."+subject, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if refused := strings.Contains(string(answer.Data), "belongs to informd"); refused != own {
				t.Errorf("%s, %s: %s", whose, subject, answer.Data)
			}
		}
		err := js(t, reader).DeleteConsumer(timeout(t), stream, name)
		if refused := err != nil && strings.Contains(err.Error(), "belongs to informd"); refused != own || !own && err != nil {
			t.Errorf("%s, deleted: %v", whose, err)
		}
		if c, err := js(t, s.Conn()).Consumer(timeout(t), stream, name); own && (err != nil || c.CachedInfo().Config.FilterSubject != "") {
			t.Errorf("the process's own consumer: %v", err)
		}
	}
}

// What a reader calls a consumer gets nowhere but into a name.
func TestReaderNamesConsumer(t *testing.T) {
	s, reader, _ := listening(t, config(t.TempDir()))
	before := lastOf(t, s, stream)
	for _, name := range []string{"a b", "a 0\\r\\n\\r\\nPUB k8s.c.core.pods.ns.p3 0\\r\\n\\r\\n", "*", ">", "a.b", "a\\u0000"} {
		answer, err := reader.RequestWithContext(timeout(t), "$JS.API.CONSUMER.CREATE."+stream,
			[]byte(`{"stream_name":"INFORMD","config":{"ack_policy":"none","name":"`+name+`"}}`))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(answer.Data), "name is invalid") {
			t.Errorf("%s: %s", name, answer.Data)
		}
	}
	fetch(t, reader, 10)
	if n := lastOf(t, s, stream); n != before {
		t.Errorf("a reader wrote %d events", n-before)
	}
}

// A reader neither sees nor forges what the process's own connection gets.
func TestReaderInbox(t *testing.T) {
	s, reader, refused := listening(t, config(t.TempDir()))
	everything, err := reader.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Flush(); err != nil {
		t.Fatal(err)
	}
	inbox := s.Conn().NewRespInbox()
	own, err := s.Conn().SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if err := reader.Publish(inbox, []byte(`{"stream":"INFORMD","seq":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.Conn().Publish(inbox, []byte("true")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-refused:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Error(err)
		}
	case <-timeout(t).Done():
		t.Error("a reader may publish to an inbox")
	}
	if m, err := own.NextMsgWithContext(timeout(t)); err != nil || string(m.Data) != "true" {
		t.Errorf("the process got %+v (%v)", m, err)
	}
	publish(t, s, 10, 11) // the first thing that the reader is to see
	if m, err := everything.NextMsgWithContext(timeout(t)); err != nil || m.Subject != subject(10) {
		t.Errorf("a reader saw %+v (%v)", m, err)
	}
}

// Readers read on when the server gets a higher limit, and stay readers.
func TestReadersAfterResize(t *testing.T) {
	var free atomic.Int64
	free.Store(300 << 20)
	c := config(t.TempDir())
	c.FakeDisk(func() (int64, int64) { return free.Load(), 10 << 30 })
	s, reader, refused := listening(t, c)
	fetch(t, reader, 10)
	free.Store(8 << 30)
	eventually(t, "the limit to grow", func() bool { return s.MaxBytes() == c.MaxBytes })
	eventually(t, "the reader to read on", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := js(t, reader).Stream(ctx, stream)
		return err == nil
	})
	fetch(t, reader, 10)
	if err := reader.Publish(subject(3), nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-refused:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Error(err)
		}
	case <-timeout(t).Done():
		t.Error("a reader may publish")
	}
}
