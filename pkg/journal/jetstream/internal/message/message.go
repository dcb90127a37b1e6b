package message

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/natsconn/refusal"
)

// Headers of a message besides those of the event (package event).
const (
	// HeaderEncoding is EncodingGzip for a compressed body.
	HeaderEncoding = "content-encoding"
	// HeaderOp has the op of the event.
	HeaderOp       = "ce-op"
	headerDataRef  = "ce-dataref"
	headerOversize = "ce-oversize"
	// headerTarget has an event's target where it is that of one namespace.
	headerTarget = "informd-target"
	// EncodingGzip is a value of HeaderEncoding.
	EncodingGzip = "gzip"
	// headerUnchanged has Unchanged of an event.
	headerUnchanged = "informd-unchanged"
)

// MaxSubject keeps a protocol line under the server's default of 4,096 bytes.
const MaxSubject = 3600

// conditionRoom is what the condition on the last message takes in the headers.
const conditionRoom = len(js.ExpectedLastSubjSeqHeader) + 26

// The bytes of headers besides their names and values.
const (
	// HeadersRoom is for all headers together.
	HeadersRoom = len("NATS/1.0\r\n\r\n")
	// HeaderRoom is for each header.
	HeaderRoom = len(": \r\n")
)

// Codec makes messages of events, and events of messages. Methods may be called concurrently.
type Codec struct {
	prefix  string
	conn    *nats.Conn
	Objects *Objects
	logger  *slog.Logger
	// Stream is the stream of events; set before the first message.
	Stream *scan.Stream
	// Oversize counts events without their object, Foreign messages that are no events.
	Oversize, Foreign atomic.Uint64
}

// NewCodec returns a codec for subjects with a prefix. Objects is for bodies that no message
// can carry.
func NewCodec(prefix string, conn *nats.Conn, objects *Objects, logger *slog.Logger) *Codec {
	return &Codec{prefix: prefix, conn: conn, Objects: objects, logger: logger}
}

// Subject returns the subject of an event. A hash replaces a name that does not fit into a
// protocol line; the headers have the name in full.
func (c *Codec) Subject(e *event.Event) string {
	s := e.NATSSubject(c.prefix)
	if len(s) <= MaxSubject {
		return s
	}
	sum := sha256.Sum256([]byte(e.Name + "\x00" + e.Target))
	short := *e
	if e.Op.Control() {
		short.Target = hex.EncodeToString(sum[:])
	} else {
		short.Name = hex.EncodeToString(sum[:])
	}
	return short.NATSSubject(c.prefix)
}

// Fill makes m, whose headers are empty, the message of an event. The values of the headers are
// in values, which it returns, because they may have to grow. Most is the largest possible number
// of bytes of headers and body.
func (c *Codec) Fill(m *nats.Msg, values []string, e *event.Event) (used []string, most int64) {
	m.Subject, m.Data = c.Subject(e), e.Data
	size := len(m.Data) + HeadersRoom + conditionRoom
	set := func(name, value string) {
		values = append(values, value)
		end := len(values)
		m.Header[name] = values[end-1 : end : end]
		size += len(name) + len(value) + HeaderRoom
	}
	e.AppendHeaders(set)
	if !e.Op.Control() && e.Target != event.GroupOrCore(e.Group)+"/"+e.Resource {
		set(headerTarget, event.EscapeToken(e.Target))
	}
	if len(e.Unchanged) > 0 {
		set(headerUnchanged, numbersText(e.Unchanged))
	}
	return values, int64(size)
}

// Fits reports whether the server accepts the size of a message.
func (c *Codec) Fits(m *nats.Msg) bool {
	return int64(m.Size()-len(m.Subject)-len(m.Reply)+conditionRoom) <= c.Limit()
}

// Limit returns the largest number of bytes of headers and body that a message may have.
func (c *Codec) Limit() int64 {
	limit := c.conn.MaxPayload()
	if most := int64(c.Stream.CachedInfo().Config.MaxMsgSize); most > 0 {
		limit = min(limit, most)
	}
	return limit
}

// Shrink makes a message fit. It compresses the body, then puts it into the object store, then
// does both again without the changes of the object, then leaves out the body. The caller must
// retry after an error.
func (c *Codec) Shrink(ctx context.Context, e *event.Event, m *nats.Msg) error {
	packed, err := Compress(e.Data)
	if err != nil {
		return err
	}
	m.Data = packed
	m.Header[HeaderEncoding] = []string{EncodingGzip}
	if c.Fits(m) {
		return nil
	}
	ref, err := c.Objects.put(ctx, e.ID, m.Subject, packed, c.Limit())
	if err == nil {
		m.Data = nil
		m.Header[headerDataRef] = []string{ref}
		return nil
	}
	if !isRefused(err) {
		return err
	}
	if !c.Reduce(e, m, err) || c.Fits(m) {
		return nil
	}
	return c.Shrink(ctx, e, m)
}

// shrinkEvents says how larger events get into the journal.
const shrinkEvents = "raise max_payload in the server's configuration, or omit fields of the resource"

// Reduce leaves out the changes of the object from an event that cannot be stored whole, or if
// it has none, the object. It reports whether the object is left.
func (c *Codec) Reduce(e *event.Event, m *nats.Msg, why error) bool {
	object := event.WithoutChanges(e.Data)
	if len(object) == len(e.Data) {
		c.Bare(e, m, why)
		return false
	}
	c.logger.Warn("event too large for the journal; stored without its changes",
		slog.String("id", e.ID), slog.String("object", e.Subject()), slog.Int("bytes", len(e.Data)), slog.Any("err", why), slog.String("next", shrinkEvents))
	e.Data, m.Data = object, object
	delete(m.Header, HeaderEncoding)
	return true
}

// Bare leaves the object out of an event that cannot be stored with it.
func (c *Codec) Bare(e *event.Event, m *nats.Msg, why error) {
	c.Oversize.Add(1)
	c.logger.Error("object too large for the journal; event stored without it",
		slog.String("id", e.ID), slog.String("object", e.Subject()), slog.Int("bytes", len(e.Data)), slog.Any("err", why), slog.String("next", shrinkEvents))
	e.Data, m.Data = nil, nil
	delete(m.Header, HeaderEncoding)
	delete(m.Header, "content-type")
	m.Header[headerOversize] = []string{"true"}
}

// isRefused reports whether the object store says no for good: neither out of
// reach nor full.
func isRefused(err error) bool {
	var answer *js.APIError
	return errors.As(err, &answer) && refusal.Of(err) != refusal.Full && answer.Code < 500
}

// Parse reads an event, without its data, from the headers of its message.
func Parse(h nats.Header) (event.Event, error) {
	e, err := event.ParseHeaders(func(name string) string {
		if values := h[name]; len(values) > 0 {
			return values[0]
		}
		return ""
	})
	if err != nil {
		return event.Event{}, err
	}
	if escaped := h[headerTarget]; len(escaped) > 0 {
		if e.Target, err = event.UnescapeToken(escaped[0]); err != nil {
			return event.Event{}, err
		}
	}
	e.Unchanged = numbers(h, headerUnchanged)
	return e, nil
}

// Decode reads an event with its body from a message. Ok is false for a message that is no
// event, which it logs and counts.
func (c *Codec) Decode(ctx context.Context, m scan.Message) (e event.Event, ok bool, err error) {
	if e, ok = c.Identify(m); !ok {
		return event.Event{}, false, nil
	}
	if e.Data, err = c.Body(ctx, m); err != nil {
		return event.Event{}, false, err
	}
	return e, true, nil
}

// Identify is [Codec.Decode] without the body.
func (c *Codec) Identify(m scan.Message) (e event.Event, ok bool) {
	e, err := Parse(m.Header)
	if err != nil {
		c.Foreign.Add(1)
		c.logger.Warn("foreign message in the journal stream; skipped", slog.String("stream", c.Stream.Name()),
			slog.String("subject", m.Subject), slog.Uint64("seq", m.Seq), slog.Any("err", err))
		return event.Event{}, false
	}
	return e, true
}

// Body returns the body that a message carries or refers to. It logs and counts a body that is
// missing or damaged for good, and returns nil.
func (c *Codec) Body(ctx context.Context, m scan.Message) ([]byte, error) {
	data := m.Data
	missing := func(why error) ([]byte, error) {
		c.Oversize.Add(1)
		c.logger.Error("object of an event unreadable; delivered without it",
			slog.String("subject", m.Subject), slog.Uint64("seq", m.Seq), slog.Any("err", why))
		return nil, nil
	}
	if ref := m.Header.Get(headerDataRef); ref != "" {
		var err error
		data, err = c.Objects.get(ctx, ref)
		if errors.Is(err, js.ErrObjectNotFound) || errors.Is(err, js.ErrBucketNotFound) || errors.Is(err, js.ErrDigestMismatch) {
			return missing(err)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(data) == 0 {
		return nil, nil
	}
	if m.Header.Get(HeaderEncoding) != EncodingGzip {
		return data, nil
	}
	plain, err := Decompress(data)
	if err != nil {
		return missing(err)
	}
	return plain, nil
}

// Compress returns data in gzip.
func Compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// maxObject bounds the size of a decompressed body: far above the limit of etcd.
const maxObject = 64 << 20

// Decompress returns the content of gzip data.
func Decompress(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decompress message: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxObject))
	if err != nil {
		return nil, fmt.Errorf("decompress message: %w", err)
	}
	return plain, nil
}
