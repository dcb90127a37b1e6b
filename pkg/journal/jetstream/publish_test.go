package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// sending is a sender to the stream S, of which somebody else plays the server.
type sending struct {
	*jetstream.Sender
	t testing.TB

	mu    sync.Mutex
	acked []js.PubAck
}

func newSending(t testing.TB, conn *nats.Conn, patience time.Duration) *sending {
	t.Helper()
	s := &sending{t: t}
	var err error
	s.Sender, err = jetstream.NewSender(conn, "S", patience, func(ack js.PubAck) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.acked = append(s.acked, ack)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (s *sending) send(subject string) <-chan error {
	s.t.Helper()
	outcome, err := s.Send(s.t.Context(), subject)
	if err != nil {
		s.t.Fatal(err)
	}
	return outcome
}

func (s *sending) acks() []js.PubAck {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acked)
}

func outcome(t testing.TB, from <-chan error) error {
	t.Helper()
	select {
	case err := <-from:
		return err
	case <-time.After(15 * time.Second):
		t.Fatal("there is no outcome")
		return nil
	}
}

// empty fails if anything is left of what was sent.
func (s *sending) empty() {
	s.t.Helper()
	if waiting, places := s.Waiting(); waiting != 0 || places != 0 {
		s.t.Errorf("%d are on their way and take %d places, want none", waiting, places)
	}
}

// subscribe plays a part of the server. It is there when subscribe returns.
func subscribe(t testing.TB, conn *nats.Conn, subject string, handle func(m *nats.Msg)) {
	t.Helper()
	if _, err := conn.Subscribe(subject, handle); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestAnswers has everything that a server may say to a message.
func TestAnswers(t *testing.T) {
	stored := func(seq uint64) js.PubAck { return js.PubAck{Stream: "S", Sequence: seq} }
	for _, c := range []struct {
		name, reply string
		want        js.PubAck
		err         error
		code        js.ErrorCode
	}{
		{name: "usual", reply: `{"stream":"S","seq":7}`, want: stored(7)},
		{name: "largest", reply: `{"stream":"S","seq":18446744073709551615}`, want: stored(1<<64 - 1)},
		{name: "spaces", reply: `{"stream": "S", "seq": 7}`, want: stored(7)},
		{name: "duplicate", reply: `{"stream":"S","seq":7,"duplicate":true}`, want: js.PubAck{Stream: "S", Sequence: 7, Duplicate: true}},
		{name: "domain", reply: `{"stream":"S","domain":"D","seq":7}`, want: js.PubAck{Stream: "S", Domain: "D", Sequence: 7}},
		{name: "another stream", reply: `{"stream":"SS","seq":7}`, want: js.PubAck{Stream: "SS", Sequence: 7}},
		{name: "refusal", reply: `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}`, code: js.JSErrCodeStreamWrongLastSequence},
		{name: "too large a number", reply: `{"stream":"S","seq":18446744073709551616}`, err: js.ErrInvalidJSAck},
		{name: "negative", reply: `{"stream":"S","seq":-1}`, err: js.ErrInvalidJSAck},
		{name: "no number", reply: `{"stream":"S","seq":}`, err: js.ErrInvalidJSAck},
		{name: "cut", reply: `{"stream":"S","seq":7`, err: js.ErrInvalidJSAck},
		{name: "no stream", reply: `{}`, err: js.ErrInvalidJSAck},
		{name: "nothing", reply: ``, err: js.ErrInvalidJSAck},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := newHost(t).connect()
			s := newSending(t, conn, time.Hour)
			subscribe(t, conn, "s.x", func(m *nats.Msg) {
				_ = m.Respond([]byte(c.reply))
				_ = m.Respond([]byte(c.reply)) // counts for nothing
			})
			err := outcome(t, s.send("s.x"))
			var refusal *js.APIError
			switch {
			case c.code != 0:
				if !errors.As(err, &refusal) || refusal.ErrorCode != c.code {
					t.Errorf("error %v, want one with the code %d", err, c.code)
				}
			case !errors.Is(err, c.err):
				t.Errorf("error %v, want %v", err, c.err)
			}
			var want []js.PubAck
			if c.want.Stream != "" {
				want = []js.PubAck{c.want}
			}
			if got := s.acks(); !slices.Equal(got, want) {
				t.Errorf("acknowledged %+v, want %+v", got, want)
			}
			s.empty()
		})
	}
}

// TestNobodyAnswers sends where no stream is.
func TestNobodyAnswers(t *testing.T) {
	s := newSending(t, newHost(t).connect(), time.Hour)
	if err := outcome(t, s.send("s.x")); !errors.Is(err, js.ErrNoStreamResponse) {
		t.Errorf("error %v, want %v", err, js.ErrNoStreamResponse)
	}
	s.empty()
}

// TestAnswerIsLate gives up each message when its own time has passed, and takes no
// answer to it any more.
func TestAnswerIsLate(t *testing.T) {
	const patience = 300 * time.Millisecond
	conn := newHost(t).connect()
	s := newSending(t, conn, patience)
	replies := make(chan string, 8)
	subscribe(t, conn, "s.x", func(m *nats.Msg) { replies <- m.Reply })
	send := func() <-chan time.Duration {
		began, took := time.Now(), make(chan time.Duration, 1)
		from := s.send("s.x")
		go func() {
			if err := <-from; !errors.Is(err, js.ErrAsyncPublishTimeout) {
				t.Errorf("error %v, want %v", err, js.ErrAsyncPublishTimeout)
			}
			took <- time.Since(began)
		}()
		return took
	}
	late := func(took <-chan time.Duration) {
		t.Helper()
		select {
		case d := <-took:
			if d < patience {
				t.Errorf("given up after %v, want at least %v", d, patience)
			}
		case <-time.After(15 * time.Second):
			t.Fatal("there is no outcome")
		}
	}
	for range 2 { // again once nothing is on its way
		first := send()
		<-time.After(patience / 2) // each has a time of its own
		second := send()
		late(first)
		late(second)
		s.empty()
		for range 2 {
			if err := conn.Publish(<-replies, []byte(`{"stream":"S","seq":1}`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	subscribe(t, conn, "s.y", func(m *nats.Msg) { _ = m.Respond([]byte(`{"stream":"S","seq":2}`)) })
	if err := outcome(t, s.send("s.y")); err != nil { // its answer comes behind those
		t.Error(err)
	}
	if got := s.acks(); len(got) != 1 || got[0].Sequence != 2 {
		t.Errorf("acknowledged %+v, want 2 alone", got)
	}
}

// TestAnswerIsLost does not wait for what would have come through a connection that is
// gone.
func TestAnswerIsLost(t *testing.T) {
	h := newHost(t)
	player := h.connect()
	l := h.tap()
	s := newSending(t, h.connect(), time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { s.Watch(ctx) })
	defer watching.Wait()
	defer cancel()
	sent := make(chan struct{}, 3)
	subscribe(t, player, "s.x", func(*nats.Msg) { sent <- struct{}{} })
	var all []<-chan error
	for range cap(sent) {
		all = append(all, s.send("s.x"))
	}
	for range cap(sent) {
		<-sent
	}
	l.cut()
	for _, one := range all {
		if err := outcome(t, one); !errors.Is(err, nats.ErrDisconnected) {
			t.Errorf("error %v, want %v", err, nats.ErrDisconnected)
		}
	}
	s.empty()
}

// TestNothingIsSent does not wait for an answer to what never left.
func TestNothingIsSent(t *testing.T) {
	conn := newHost(t).connect()
	s := newSending(t, conn, time.Hour)
	conn.Close()
	if err := outcome(t, s.send("s.x")); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("error %v, want %v", err, nats.ErrConnectionClosed)
	}
	s.empty()
}

// TestSenderIsClosed: the connection is the caller's, and has nothing of the sender then.
func TestSenderIsClosed(t *testing.T) {
	conn := newHost(t).connect()
	before := conn.NumSubscriptions()
	s, err := jetstream.NewSender(conn, "S", time.Hour, func(js.PubAck) {})
	if err != nil {
		t.Fatal(err)
	}
	if conn.NumSubscriptions() == before {
		t.Error("nobody takes acknowledgements")
	}
	s.Close()
	if after := conn.NumSubscriptions(); after != before {
		t.Errorf("%d subscriptions are left, want %d", after, before)
	}
}

// TestMessagesAreUsedAgain appends events of many shapes, one after the other and
// several at a time: none may have anything of another.
func TestMessagesAreUsedAgain(t *testing.T) {
	h := newHostWith(t, 64<<10)
	j := h.open()
	config := h.config()
	stream, err := h.shared().Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	var now clock
	shape := func(i int) event.Event {
		e := (&object{name: fmt.Sprint("object-", i)}).event(&now, event.Added)
		switch i % 6 {
		case 1:
			e.Unchanged = []uint64{3}
			e.Replay = true
		case 2:
			e.Namespace, e.Target = "", "core/nodes"
			e.Resource, e.Kind = "nodes", "Node"
		case 3:
			e.Target = "core/configmaps@default"
			e.Data = fmt.Appendf(nil, `{"object":%q}`, make([]byte, 100<<10)) // is compressed
		case 4:
			e = event.Event{
				ID: fmt.Sprint("gap-", i), Op: event.Gap, Time: e.Time, Cluster: "test", Target: "core/configmaps",
				Gap: &event.GapInfo{From: 1, To: uint64(i) + 2, Reason: "expired", Recovered: event.RecoveredState},
			}
		case 5:
			e.Data = noise(100 << 10) // goes to the object store
		}
		return e
	}
	seq := uint64(0)
	for n := 0; n < 60; {
		var events []event.Event
		for range 1 + n%5 {
			events = append(events, shape(n))
			n++
		}
		mustAppend(t, j, events...)
		for i := range events {
			seq++
			got, err := stream.GetMsg(t.Context(), seq)
			if err != nil {
				t.Fatal(err)
			}
			if last := got.Header.Get(js.ExpectedLastSubjSeqHeader); last == "" {
				t.Errorf("message %d has no condition", seq)
			}
			maps.DeleteFunc(got.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Nats-") })
			want := config.Message(&events[i])
			if len(want.Data) > 64<<10 {
				want.Header["content-encoding"] = []string{"gzip"}
				if len(got.Data) == 0 {
					want.Header["ce-dataref"] = []string{"nats-object://INFORMD_OBJECTS/" + events[i].ID}
				}
			} else if !bytes.Equal(got.Data, want.Data) {
				t.Errorf("message %d has the body %s, want %s", seq, got.Data, want.Data)
			}
			if got.Subject != want.Subject || !reflect.DeepEqual(got.Header, want.Header) {
				t.Fatalf("message %d is of %s, want %s, and has the headers\n%v, want\n%v", seq, got.Subject, want.Subject, got.Header, want.Header)
			}
		}
	}
}
