package record

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/conflict"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
	"github.com/informd/informd/pkg/natsconn/refusal"
)

// HeaderWriter is the header with the writer of a record. A writer whose acknowledgement was lost
// recognises its record by it.
const HeaderWriter = "informd-writer"

// Records knows the last record of every key. It writes a record on the condition that it follows
// that one. So a record that a process sent before it was frozen does not replace one of its
// successor. Methods may be called concurrently.
type Records struct {
	// Writer is the same for all journals that replace one another in a process.
	Writer string

	client js.JetStream
	// own: the server is informd's own.
	own bool
	// allowed returns why nothing may be written now.
	allowed func() error
	// State is the stream of records; set it before the first call.
	State *scan.Stream

	mu   sync.Mutex
	last map[string]*lastRecord
}

// lastRecord is the last record of a key.
type lastRecord struct {
	mu    sync.Mutex // held while one is written, for some seconds at most
	known bool
	seq   uint64 // 0: there is none
	// written is the sequence of the last one that these records wrote.
	written uint64
}

// New returns the records of a writer, a new one if it is "". Own says that the server is
// informd's own, so that no other process writes. Allowed returns why nothing may be written now.
func New(client js.JetStream, writer string, own bool, allowed func() error) *Records {
	return &Records{client: client, Writer: cmp.Or(writer, nuid.Next()), own: own, allowed: allowed, last: map[string]*lastRecord{}}
}

func (r *Records) lastOf(key string) *lastRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.last[key]
	if h == nil {
		h = &lastRecord{}
		r.last[key] = h
	}
	return h
}

// Key is the key of a record of the journal. It is a subject of the stream of records.
func (r *Records) Key(name string) string { return r.State.Name() + "." + name }

// Target is the key of a target, and of all targets the prefix for "".
func (r *Records) Target(name string) string { return r.Key("target." + event.EscapeToken(name)) }

// Sink is the key of a sink.
func (r *Records) Sink(name string) string { return r.Key("sink." + event.EscapeToken(name)) }

// Resnapshots is the key of the re-snapshots of a sink.
func (r *Records) Resnapshots(sink string) string {
	return r.Key("resnapshot." + event.EscapeToken(sink))
}

// All reads the last records of all targets and sinks. Nothing may be written meanwhile: it would
// come as well, behind the others.
func (r *Records) All(ctx context.Context) (all []scan.Message, err error) {
	err = r.State.Each(ctx, scan.Scan{
		Policy: js.DeliverAllPolicy, Batch: 256, // a subject has one
		Filters: []string{r.Key("target.>"), r.Key("sink.>")},
	}, func(m scan.Message) (bool, error) {
		all = append(all, m)
		return true, nil
	})
	return all, err
}

// Found notes the last record of a key, when the journal is opened.
func (r *Records) Found(m scan.Message) {
	h := r.lastOf(m.Subject)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq, h.known = m.Seq, true
}

// Load reads a record, false if there is none.
func (r *Records) Load(ctx context.Context, key string, record any) (bool, error) {
	m, err := r.State.LastMessage(ctx, key)
	if err != nil || m.Seq == 0 {
		return false, err
	}
	if err := json.Unmarshal(m.Data, record); err != nil {
		return false, server.Final(fmt.Errorf("record %s is damaged: %w; delete it to start again with a new snapshot: nats stream purge %s --subject %s", key, err, r.State.Name(), key))
	}
	return true, nil
}

// Save writes a record in place of the earlier one. The error is [conflict.ErrFenced] if another
// process has written one since, and [conflict.ErrLost] if the stream lost the earlier one.
func (r *Records) Save(ctx context.Context, key string, record any) error {
	body, err := json.Marshal(record)
	if err != nil {
		return server.Final(err)
	}
	h := r.lastOf(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known {
		m, err := r.State.LastMessage(ctx, key)
		if err != nil {
			return err
		}
		h.seq, h.known = m.Seq, true
	}
	err = r.write(ctx, h, key, body)
	if refusal.Of(err) != refusal.Stale {
		return err
	}
	m, err := r.State.LastMessage(ctx, key)
	if err != nil {
		return err
	}
	if m.Seq != 0 && m.Header.Get(HeaderWriter) != r.Writer {
		if m.Seq < h.seq {
			return fmt.Errorf("%w: record %s is older than the last one written", conflict.ErrLost, key)
		}
		return fmt.Errorf("%w: it wrote record %s", conflict.ErrFenced, key)
	}
	h.seq = m.Seq // it is of this writer, and its acknowledgement was lost; or an operator deleted the record
	return r.write(ctx, h, key, body)
}

// Claim writes an existing record again, so that a record that another process sent before, and
// the server receives later, is refused. A record that was written since [New] needs no claim, so
// that another attempt to open the journal continues where the one before has failed.
func (r *Records) Claim(ctx context.Context, m scan.Message) error {
	if r.own {
		return nil // no other process can write
	}
	h := r.lastOf(m.Subject)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.written == m.Seq {
		return nil
	}
	return r.write(ctx, h, m.Subject, m.Data)
}

// write writes a record behind the known one. It calls allowed after that one became known: a
// process that was frozen in between is refused. h.mu is held.
func (r *Records) write(ctx context.Context, h *lastRecord, key string, body []byte) error {
	if err := r.allowed(); err != nil {
		return server.Final(err)
	}
	m := &nats.Msg{Subject: key, Data: body, Header: nats.Header{
		HeaderWriter:                 {r.Writer},
		js.ExpectedLastSubjSeqHeader: {strconv.FormatUint(h.seq, 10)},
	}}
	ack, err := r.client.PublishMsg(ctx, m, js.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	h.seq, h.written = ack.Sequence, ack.Sequence
	return nil
}

// Keys returns the keys of records with a prefix.
func (r *Records) Keys(prefix string) (keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.last {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys
}
