package jetstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// ingester publishes batches by the server's fast batch publishing (ADR-50, nats-server
// 2.14) in mode fail: the least that its protocol asks of a publisher. A message says in
// its reply subject which of the batch it is: <inbox>.<id>.<flow>.fail.<n>.<op>.$FI. The
// server acknowledges every few of them, and at the end how many it has stored. It
// exists to be measured, see BenchmarkPublish.
type ingester struct {
	conn  *nats.Conn
	inbox string

	mu      sync.Mutex
	batches map[string]*ingest // by id
}

// ingest is one batch.
type ingest struct {
	ingester *ingester
	id       string
	prefix   string // of the reply subjects, up to the number
	n        uint64

	acked  atomic.Uint64
	every  atomic.Uint64 // how many messages lie between two acknowledgements
	moved  chan struct{}
	result chan ingested
}

// ingested is what the server says at the end of a batch.
type ingested struct {
	Error *js.APIError `json:"error"`
	Seq   uint64       `json:"seq"` // of the last message
	Count uint64       `json:"count"`
	// Type is that of a flow message, of which Seq is the number of a message.
	Type string `json:"type"`
	Msgs uint64 `json:"msgs"`
}

// The operations.
const (
	ingestStart  = "0"
	ingestAppend = "1"
	ingestCommit = "2"
)

func newIngester(conn *nats.Conn) (*ingester, error) {
	g := &ingester{conn: conn, inbox: conn.NewInbox(), batches: map[string]*ingest{}}
	_, err := conn.Subscribe(g.inbox+".>", g.hear)
	return g, err
}

// begin begins a batch that asks for an acknowledgement of every so many messages.
func (g *ingester) begin(flow int) *ingest {
	i := &ingest{ingester: g, id: nuid.Next(), moved: make(chan struct{}, 1), result: make(chan ingested, 1)}
	i.prefix = g.inbox + "." + i.id + "." + strconv.Itoa(flow) + ".fail."
	i.every.Store(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.batches[i.id] = i
	return i
}

func (g *ingester) hear(m *nats.Msg) {
	id, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, g.inbox+"."), ".")
	g.mu.Lock()
	i := g.batches[id]
	g.mu.Unlock()
	if i != nil {
		i.hear(m)
	}
}

func (i *ingest) hear(m *nats.Msg) {
	var said ingested
	if err := json.Unmarshal(m.Data, &said); err != nil {
		said.Error = &js.APIError{Description: err.Error()}
	}
	switch said.Type {
	case "ack":
		i.acked.Store(said.Seq)
		i.every.Store(max(said.Msgs, 1))
		select {
		case i.moved <- struct{}{}:
		default:
		}
	case "gap", "err": // the end follows
	default:
		select {
		case i.result <- said:
		default: // a batch that is refused as a whole is refused with each of its messages
		}
	}
}

// publish sends the next message. It waits while more than two acknowledgements are
// missing, which is how the server slows a publisher down.
func (i *ingest) publish(ctx context.Context, m *nats.Msg, last bool) error {
	for i.n > i.acked.Load()+2*i.every.Load() {
		select {
		case <-i.moved:
		case said := <-i.result:
			return fmt.Errorf("the batch ended at %d of %d: %w", said.Count, i.n, said.err())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	i.n++
	op := ingestAppend
	switch {
	case last:
		op = ingestCommit
	case i.n == 1:
		op = ingestStart
	}
	m.Reply = i.prefix + strconv.FormatUint(i.n, 10) + "." + op + ".$FI"
	return i.ingester.conn.PublishMsg(m)
}

// wait returns what became of the batch after its last message was sent.
func (i *ingest) wait(ctx context.Context) (ingested, error) {
	defer func() {
		i.ingester.mu.Lock()
		defer i.ingester.mu.Unlock()
		delete(i.ingester.batches, i.id)
	}()
	select {
	case said := <-i.result:
		if said.Count != i.n {
			return said, fmt.Errorf("%d of %d stored: %w", said.Count, i.n, said.err())
		}
		return said, nil
	case <-ctx.Done():
		return ingested{}, ctx.Err()
	}
}

func (s *ingested) err() error {
	if s.Error == nil {
		return errors.New("the server does not say why")
	}
	return s.Error
}

// send publishes messages as one batch, without waiting for what becomes of it.
func (g *ingester) send(ctx context.Context, flow int, messages []*nats.Msg) (*ingest, error) {
	i := g.begin(flow)
	for n, m := range messages {
		if err := i.publish(ctx, m, n == len(messages)-1); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// TestIngestInModeFail shows what the journal would have to go by.
func TestIngestInModeFail(t *testing.T) {
	h := newHost(t)
	client := h.shared()
	stream, err := client.CreateStream(t.Context(), js.StreamConfig{
		Name: "S", Subjects: []string{"s.>"}, AllowBatchPublish: true, MaxMsgsPerSubject: 16,
	})
	if err != nil {
		t.Fatal(err)
	}
	g, err := newIngester(h.connect())
	if err != nil {
		t.Fatal(err)
	}
	publish := func(expected ...string) (ingested, error) {
		t.Helper()
		messages := make([]*nats.Msg, len(expected))
		for i, e := range expected {
			messages[i] = &nats.Msg{Subject: fmt.Sprint("s.", i), Header: nats.Header{js.ExpectedLastSubjSeqHeader: {e}}}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		i, err := g.send(ctx, 2, messages)
		if err != nil {
			return ingested{}, err
		}
		return i.wait(ctx)
	}
	for _, step := range []struct {
		what         string
		expected     []string
		stored, last uint64 // messages of the batch, and of the stream then
	}{
		{"new", []string{"0", "0", "0", "0"}, 4, 4},
		{"a wrong one in the middle: what is before it is stored", []string{"1", "2", "7", "4"}, 2, 6},
		{"the same again: a batch that was stored in part is refused as a whole", []string{"1", "2", "3", "4"}, 0, 6},
		{"behind what was stored", []string{"5", "6", "3", "4"}, 4, 10},
	} {
		got, err := publish(step.expected...)
		if (err == nil) != (step.stored == 4) || got.Count != step.stored {
			t.Errorf("%s: %+v, %v; want %d stored", step.what, got, err, step.stored)
		}
		info, err := stream.Info(t.Context())
		if err != nil || info.State.LastSeq != step.last {
			t.Errorf("%s: the stream ends at %d, %v; want %d", step.what, info.State.LastSeq, err, step.last)
		}
	}
}
