package jetstream

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

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
)

// Headers that informd knows by name; beside ce-op they are not of the event.
const (
	headerEncoding = "content-encoding"
	headerOp       = "ce-op" // one of the event's, for a look without the rest
	headerDataRef  = "ce-dataref"
	headerOversize = "ce-oversize"
	// headerTarget has an event's target where it is that of one namespace.
	headerTarget = "informd-target"
	encodingGzip = "gzip"
	// headerGates and headerUnchanged have an event's Gates, see [setNumbers].
	headerGates     = "informd-gates"
	headerUnchanged = "informd-unchanged"
)

// conditionRoom is what the condition on the last message takes in the headers.
const conditionRoom = len(js.ExpectedLastSubjSeqHeader) + 26

// What the headers take beside their names and values: all together, and each.
const (
	headersRoom = len("NATS/1.0\r\n\r\n")
	headerRoom  = len(": \r\n")
)

// subject is where the event goes. A name that would not fit into a protocol line
// is replaced by its hash; the headers have it in full.
func (c *Config) subject(e *event.Event) string {
	s := e.NATSSubject(c.SubjectPrefix)
	if len(s) <= maxSubject {
		return s
	}
	sum := sha256.Sum256([]byte(e.Name + "\x00" + e.Target))
	short := *e
	if e.Op.Control() {
		short.Target = hex.EncodeToString(sum[:])
	} else {
		short.Name = hex.EncodeToString(sum[:])
	}
	return short.NATSSubject(c.SubjectPrefix)
}

// fill makes the message of an event, of one that has empty headers. The headers lie in
// values, which it returns, as they may have to grow. It also returns how many bytes of
// headers and body there are at most.
func (c *Config) fill(m *nats.Msg, values []string, e *event.Event) (used []string, most int64) {
	m.Subject, m.Data = c.subject(e), e.Data
	size := len(m.Data) + headersRoom + conditionRoom
	set := func(name, value string) {
		values = append(values, value)
		end := len(values)
		m.Header[name] = values[end-1 : end : end]
		size += len(name) + len(value) + headerRoom
	}
	e.AppendHeaders(set)
	if !e.Op.Control() && e.Target != event.GroupOrCore(e.Group)+"/"+e.Resource {
		set(headerTarget, event.EscapeToken(e.Target))
	}
	if e.Gates != nil {
		setNumbers(set, headerGates, e.Gates.Hashes)
		setNumbers(set, headerUnchanged, e.Gates.Unchanged)
	}
	return values, int64(size)
}

// fits reports whether the server takes the message.
func (j *Journal) fits(m *nats.Msg) bool {
	return int64(m.Size()-len(m.Subject)-len(m.Reply)+conditionRoom) <= j.limit()
}

// limit is how many bytes of headers and body a message may have.
func (j *Journal) limit() int64 {
	limit := j.config.Conn.MaxPayload()
	if most := int64(j.stream.CachedInfo().Config.MaxMsgSize); most > 0 {
		limit = min(limit, most)
	}
	return limit
}

// shrink makes a message fit, in these steps: its body compressed, its body put into
// the object store, both again without what says how the object has changed, without
// body. It returns an error if that has to be tried again.
func (j *Journal) shrink(ctx context.Context, e *event.Event, m *nats.Msg) error {
	packed, err := compress(e.Data)
	if err != nil {
		return err
	}
	m.Data = packed
	m.Header[headerEncoding] = []string{encodingGzip}
	if j.fits(m) {
		return nil
	}
	ref, err := j.objects.put(ctx, e.ID, m.Subject, packed)
	if err == nil {
		m.Data = nil
		m.Header[headerDataRef] = []string{ref}
		return nil
	}
	if !isRefused(err) {
		return err
	}
	if !j.reduce(e, m, err) || j.fits(m) {
		return nil
	}
	return j.shrink(ctx, e, m)
}

// shrinkEvents says how larger events get into the journal.
const shrinkEvents = "raise max_payload in the server's configuration, or omit fields of the resource"

// reduce leaves out of an event that cannot be stored whole what says how the object
// has changed, or if there is nothing of it the object. It reports whether that is left.
func (j *Journal) reduce(e *event.Event, m *nats.Msg, why error) bool {
	object := event.WithoutChanges(e.Data)
	if len(object) == len(e.Data) {
		j.bare(e, m, why)
		return false
	}
	j.logger.Warn("event too large for the journal; stored without its changes",
		slog.String("id", e.ID), slog.String("object", e.Subject()), slog.Int("bytes", len(e.Data)), slog.Any("err", why), slog.String("next", shrinkEvents))
	e.Data, m.Data = object, object
	delete(m.Header, headerEncoding)
	return true
}

// bare leaves the object out of an event that cannot be stored with it.
func (j *Journal) bare(e *event.Event, m *nats.Msg, why error) {
	j.oversize.Add(1)
	j.logger.Error("object too large for the journal; event stored without it",
		slog.String("id", e.ID), slog.String("object", e.Subject()), slog.Int("bytes", len(e.Data)), slog.Any("err", why), slog.String("next", shrinkEvents))
	e.Data, m.Data = nil, nil
	delete(m.Header, headerEncoding)
	delete(m.Header, "content-type")
	m.Header[headerOversize] = []string{"true"}
}

// isRefused reports whether the object store says no for good: neither out of
// reach nor full.
func isRefused(err error) bool {
	var refusal *js.APIError
	return errors.As(err, &refusal) && !isFull(err) && refusal.Code < 500
}

// parse reads an event from the headers of its message.
func parse(h nats.Header) (event.Event, error) {
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
	if hashes := numbers(h, headerGates); hashes != nil {
		e.Gates = &event.Gates{Hashes: hashes, Unchanged: numbers(h, headerUnchanged)}
	}
	return e, nil
}

// decode reads an event with its body from a message. ok is false for a message
// that is none, which is logged and counted.
func (j *Journal) decode(ctx context.Context, m scan.Message) (e event.Event, ok bool, err error) {
	if e, ok = j.identify(m); !ok {
		return event.Event{}, false, nil
	}
	if e.Data, err = j.body(ctx, m); err != nil {
		return event.Event{}, false, err
	}
	return e, true, nil
}

// identify is decode without the body.
func (j *Journal) identify(m scan.Message) (e event.Event, ok bool) {
	e, err := parse(m.Header)
	if err != nil {
		j.foreign.Add(1)
		j.logger.Warn("foreign message in the journal stream; skipped", slog.String("stream", j.config.Stream),
			slog.String("subject", m.Subject), slog.Uint64("seq", m.Seq), slog.Any("err", err))
		return event.Event{}, false
	}
	return e, true
}

// body returns what a message carries or refers to. What is gone or damaged for
// good is logged and counted, and left out.
func (j *Journal) body(ctx context.Context, m scan.Message) ([]byte, error) {
	data := m.Data
	missing := func(why error) ([]byte, error) {
		j.oversize.Add(1)
		j.logger.Error("object of an event unreadable; delivered without it",
			slog.String("subject", m.Subject), slog.Uint64("seq", m.Seq), slog.Any("err", why))
		return nil, nil
	}
	if ref := m.Header.Get(headerDataRef); ref != "" {
		var err error
		data, err = j.objects.get(ctx, ref)
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
	if m.Header.Get(headerEncoding) != encodingGzip {
		return data, nil
	}
	plain, err := decompress(data)
	if err != nil {
		return missing(err)
	}
	return plain, nil
}

func compress(data []byte) ([]byte, error) {
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

// maxObject bounds what a body may unpack to: far above what etcd takes.
const maxObject = 64 << 20

func decompress(data []byte) ([]byte, error) {
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
