package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// headerWriter tells whose a record is: a writer whose acknowledgement was lost knows
// its own again.
const headerWriter = "informd-writer"

// metaCreator is a stream's metadata with the writer that has created the stream.
const metaCreator = "informd-creator"

// metaReplaces is the metadata of a stream that was created in place of one that was missing.
// A process that dies before it has declared the loss leaves that to the next one.
const metaReplaces = "informd-replaces"

// replacesFor is how long after its creation such a stream tells that of targets without a
// mark. Later ones are new in the config.
const replacesFor = time.Hour

// records knows where the last record of every key is. A record is written on the
// condition that it follows that one, as events are: what a process sent before it
// was frozen does not replace what its successor has written since. Its methods may
// be called concurrently.
type records struct {
	// writer is one for all journals that replace one another in a process.
	writer string

	mu    sync.Mutex
	heads map[string]*recordHead
}

// recordHead is the last record of a key.
type recordHead struct {
	mu    sync.Mutex // held while one is written, for some seconds at most
	known bool
	seq   uint64 // 0: there is none
}

func newRecords(replaces *Journal) *records {
	writer := nuid.Next()
	if replaces != nil {
		writer = replaces.records.writer
	}
	return &records{writer: writer, heads: map[string]*recordHead{}}
}

func (r *records) head(key string) *recordHead {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.heads[key]
	if h == nil {
		h = &recordHead{}
		r.heads[key] = h
	}
	return h
}

// found says what a key ends with when the journal is opened.
func (r *records) found(m scan.Message) {
	h := r.head(m.Subject)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq, h.known = m.Seq, true
}

// load reads a record, false if there is none.
func (j *Journal) load(ctx context.Context, key string, record any) (bool, error) {
	m, err := j.state.LastMessage(ctx, key)
	if err != nil || m.Seq == 0 {
		return false, err
	}
	if err := json.Unmarshal(m.Data, record); err != nil {
		return false, server.Final(fmt.Errorf("record %s is damaged: %w; delete it to start again with a new snapshot: nats stream purge %s --subject %s", key, err, j.config.stateStream(), key))
	}
	return true, nil
}

// save writes a record in place of the earlier one. If another process has written
// one since, the journal is not ours any more: [ErrFenced].
func (j *Journal) save(ctx context.Context, key string, record any) error {
	body, err := json.Marshal(record)
	if err != nil {
		return server.Final(err)
	}
	h := j.records.head(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known {
		m, err := j.state.LastMessage(ctx, key)
		if err != nil {
			return err
		}
		h.seq, h.known = m.Seq, true
	}
	err = j.write(ctx, h, key, body)
	if !isStale(err) {
		return err
	}
	m, err := j.state.LastMessage(ctx, key)
	if err != nil {
		return err
	}
	if m.Seq != 0 && m.Header.Get(headerWriter) != j.records.writer {
		if m.Seq < h.seq {
			err = fmt.Errorf("%w: record %s is older than the last one written", ErrLost, key)
			j.lose(err)
		} else {
			err = fmt.Errorf("%w: it wrote record %s", ErrFenced, key)
			j.stop(err, 0)
		}
		return server.Final(err)
	}
	h.seq = m.Seq // ours, and its acknowledgement was lost; or somebody has deleted it
	return j.write(ctx, h, key, body)
}

// claim writes a record that is there once more, so that what another process has
// sent and the server has not got comes too late.
func (j *Journal) claim(ctx context.Context, m scan.Message) error {
	if j.config.Own {
		return nil // nobody else can write
	}
	h := j.records.head(m.Subject)
	h.mu.Lock()
	defer h.mu.Unlock()
	return j.write(ctx, h, m.Subject, m.Data)
}

// write writes a record behind the one that is known. The fence is asked after
// that became known: who is frozen in between is behind. h.mu is held.
func (j *Journal) write(ctx context.Context, h *recordHead, key string, body []byte) error {
	if err := j.config.allowed(); err != nil {
		return server.Final(err)
	}
	m := &nats.Msg{Subject: key, Data: body, Header: nats.Header{
		headerWriter:                 {j.records.writer},
		js.ExpectedLastSubjSeqHeader: {strconv.FormatUint(h.seq, 10)},
	}}
	ack, err := j.client.PublishMsg(ctx, m, js.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	h.seq = ack.Sequence
	return nil
}
