package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/embedded"
)

// filtered is a request for a consumer with that many filter subjects.
func filtered(t *testing.T, name string, filters int) []byte {
	t.Helper()
	c := jetstream.ConsumerConfig{Name: name, AckPolicy: jetstream.AckNonePolicy}
	for n := range filters {
		c.FilterSubjects = append(c.FilterSubjects, subject(n))
	}
	body, err := json.Marshal(map[string]any{"stream_name": stream, "config": c})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// ownRequests sends requests over the process's own connection. Each must be answered.
func ownRequests(t *testing.T, s *embedded.Server) {
	t.Helper()
	own := js(t, s.Conn())
	for range 5 {
		st, err := own.Stream(timeout(t), stream)
		if err == nil {
			_, err = st.CreateConsumer(timeout(t), jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: time.Hour})
		}
		if err != nil {
			t.Fatalf("the process's own request: %v", err)
		}
	}
}

// Readers that ask for consumers with very many filters keep no worker of the server busy.
func TestManyFilterSubjects(t *testing.T) {
	s, reader, _ := listening(t, config(t.TempDir()))
	inbox := reader.NewRespInbox()
	answers, err := reader.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	const attacks = 4
	for n := range attacks {
		name := fmt.Sprintf("many%d", n)
		if err := reader.PublishRequest("$JS.API.CONSUMER.CREATE."+stream+"."+name, inbox, filtered(t, name, 60_000)); err != nil {
			t.Fatal(err)
		}
	}
	for range attacks {
		m, err := answers.NextMsgWithContext(timeout(t))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(m.Data), "64 KiB") {
			t.Errorf("a reader got %s", m.Data)
		}
	}
	ownRequests(t, s)
	for filters, limit := range map[int]string{64: "", 65: "at most 64 filter subjects"} {
		m, err := reader.RequestWithContext(timeout(t), "$JS.API.CONSUMER.CREATE."+stream+".some", filtered(t, "some", filters))
		if err != nil {
			t.Fatal(err)
		}
		if refused := strings.Contains(string(m.Data), `"error"`); refused != (limit != "") || !strings.Contains(string(m.Data), limit) {
			t.Errorf("%d filters: %s", filters, m.Data)
		}
	}
}

// flood sends a request over three connections until the test ends. A connection that is
// closed is replaced. The requests pretend to be the reader's.
func flood(t *testing.T, s *embedded.Server, reader *nats.Conn, subject, body string) {
	t.Helper()
	var flooding sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		flooding.Wait()
	})
	id, err := reader.GetClientID()
	if err != nil {
		t.Fatal(err)
	}
	request := &nats.Msg{Subject: subject, Reply: "answers", Data: []byte(body), Header: nats.Header{"Nats-Request-Info": {fmt.Sprintf(`{"acc":"READERS","id":%d}`, id)}}}
	begun := make(chan struct{}, 3)
	for range cap(begun) {
		flooding.Go(func() {
			for first := true; ctx.Err() == nil; {
				conn, err := nats.Connect(s.URL(), nats.NoReconnect(), nats.Timeout(deadline),
					nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
				if err != nil {
					continue // the connection before it is not gone yet
				}
				_, _ = conn.SubscribeSync("answers")
				for n := 0; ctx.Err() == nil && conn.PublishMsg(request) == nil; n++ {
					if first && n == 20_000 {
						first = false
						begun <- struct{}{}
					}
				}
				if first {
					first = false
					begun <- struct{}{}
				}
				conn.Close()
			}
		})
	}
	for range cap(begun) {
		select {
		case <-begun:
		case <-timeout(t).Done():
			t.Fatal("the flood does not begin")
		}
	}
}

// Readers that flood requests that they may send delay neither the process nor other readers.
func TestFloodOfPermittedRequests(t *testing.T) {
	for name, request := range map[string][2]string{
		"messages":       {"$JS.API.STREAM.MSG.GET." + stream, `{"seq":1}`},
		"direct":         {"$JS.API.DIRECT.GET." + stream, `{"seq":1}`},
		"batches":        {"$JS.API.DIRECT.GET." + stream, `{"seq":1,"batch":10}`},
		"stream":         {"$JS.API.STREAM.INFO." + stream, ""},
		"account":        {"$JS.API.INFO", ""},
		"consumers":      {"$JS.API.CONSUMER.LIST." + stream, ""},
		"consumers made": {"$JS.API.CONSUMER.CREATE." + stream, `{"stream_name":"INFORMD","config":{"ack_policy":"none"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			c, log := logged(t.TempDir())
			s, reader, _ := listening(t, c)
			flood(t, s, reader, request[0], request[1])
			ownRequests(t, s)
			if name != "consumers made" { // those of all readers are used up
				fetch(t, reader, 10)
			}
			publish(t, s, 10, 20)
			eventually(t, "a client to be disconnected", func() bool { return strings.Contains(log.String(), "client disconnected") })
			lines := strings.Count(log.String(), "journal.listen")
			if minutes := int(time.Since(began) / time.Minute); lines > 11*(minutes+1) { // one says how many were omitted
				t.Errorf("%d lines about clients", lines)
			}
			if reader.Stats().Reconnects != 0 {
				t.Error("another reader was disconnected")
			}
		})
	}
}

// Requests that the server does not answer hold up no other reader.
func TestRequestsWithoutAnAnswer(t *testing.T) {
	for _, subject := range []string{
		"$JS.API.STREAM.INFO.a.b", "$JS.API.STREAM.MSG.GET." + stream + ".b", "$JS.API.CONSUMER.DURABLE.CREATE." + stream + ".a.b",
		"$JS.API.DIRECT.GET.NONE", "$JS.API.DIRECT.GET.NONE.k8s.a", "$JS.API.DIRECT.GET." + stream + "_STATE",
	} {
		t.Run(subject, func(t *testing.T) {
			s, reader, _ := listening(t, config(t.TempDir()))
			attacker, err := nats.Connect(s.URL(), nats.Timeout(deadline), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			if err != nil {
				t.Fatal(err)
			}
			defer attacker.Close()
			for range 5 {
				if err := attacker.PublishRequest(subject, attacker.NewRespInbox(), []byte(`{"seq":1}`)); err != nil {
					t.Fatal(err)
				}
			}
			if err := attacker.FlushWithContext(timeout(t)); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := js(t, reader).Stream(timeout(t), stream); err != nil {
					t.Fatalf("another reader: %v", err)
				}
			}
		})
	}
}

// A reader that waits for each answer gets as many as it asks for, with the same content as
// the process.
func TestReaderGetsMessages(t *testing.T) {
	s, reader, _ := listening(t, config(t.TempDir()))
	type answer struct {
		Subject, Data, Missing, NoSubject string
		Seq                               uint64
	}
	get := func(conn *nats.Conn, name string) (got answer) {
		st, err := js(t, conn).Stream(timeout(t), name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := st.GetMsg(timeout(t), 1)
		if err != nil {
			t.Fatal(err)
		}
		if last, err := st.GetLastMsgForSubject(timeout(t), m.Subject); err != nil || last.Sequence != m.Sequence {
			t.Errorf("%s: the last message is %+v (%v)", name, last, err)
		}
		_, missing := st.GetMsg(timeout(t), 1000)
		_, none := st.GetLastMsgForSubject(timeout(t), "k8s.none")
		return answer{m.Subject, string(m.Data), fmt.Sprint(missing), fmt.Sprint(none), m.Sequence}
	}
	for _, name := range []string{stream, stream + "_STATE"} { // with direct gets and without
		if own, theirs := get(s.Conn(), name), get(reader, name); own != theirs {
			t.Errorf("%s: a reader gets %.300v, the process %.300v", name, theirs, own)
		}
	}
	if _, err := js(t, reader).Stream(timeout(t), "NONE"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("no stream: %v", err)
	}
	var reading sync.WaitGroup
	for range 8 {
		reading.Go(func() {
			st, err := js(t, reader).Stream(timeout(t), stream)
			for range 200 {
				if err == nil {
					_, err = st.GetMsg(timeout(t), 3)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	reading.Wait()
	if n := reader.Stats().Reconnects; n != 0 {
		t.Errorf("the reader was disconnected %d times", n)
	}
}

// A consumer counts as one of readers also if the server makes it late, or never says so.
func TestConsumersMadeLate(t *testing.T) {
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	conn, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	_, err = conn.Subscribe("$JS.API.CONSUMER.INFO.>", func(m *nats.Msg) { _ = m.Respond([]byte(`{"error":{"code":404}}`)) })
	if err != nil {
		t.Fatal(err)
	}
	requests, err := conn.SubscribeSync("$JS.API.CONSUMER.CREATE.>")
	if err != nil {
		t.Fatal(err)
	}
	answers, err := conn.SubscribeSync("answers")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		last  time.Duration
		late  string
		count int
	}{
		"late":    {deadline, `{"stream_name":"INFORMD","name":"late","config":{}}`, 1},
		"refused": {deadline, `{"error":{"code":400}}`, 0},
		"never":   {200 * time.Millisecond, "", 1},
	} {
		for _, subject := range []string{"$JS.API.CONSUMER.CREATE.INFORMD", "$JS.API.CONSUMER.CREATE.INFORMD.late"} {
			count := make(chan int, 1)
			go func() {
				m := &nats.Msg{Subject: subject, Reply: "answers", Data: []byte(`{"stream_name":"INFORMD","config":{"ack_policy":"none"}}`)}
				count <- embedded.ServeRequest(conn, m, 20*time.Millisecond, c.last)
			}()
			m, err := requests.NextMsgWithContext(timeout(t))
			if err != nil {
				t.Fatal(err)
			}
			if answer, err := answers.NextMsgWithContext(timeout(t)); err != nil || !strings.Contains(string(answer.Data), "try again") {
				t.Errorf("%s: the reader got %+v (%v)", name, answer, err)
			}
			if c.late != "" {
				if err := m.Respond([]byte(c.late)); err != nil {
					t.Fatal(err)
				}
			}
			if n := <-count; n != c.count {
				t.Errorf("%s: %d consumers", name, n)
			}
		}
	}
}
