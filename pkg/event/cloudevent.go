package event

import (
	"strconv"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/internal/jsonend"
)

const (
	specVersion = "1.0"
	contentType = "application/json" // of Data
	// ContentTypeJSON is the media type of [Event.AppendJSON]'s output.
	ContentTypeJSON = "application/cloudevents+json; charset=UTF-8"
	// ContentTypeBatch is the media type of [AppendJSONBatch]'s output.
	ContentTypeBatch = "application/cloudevents-batch+json; charset=UTF-8"
	sourcePrefix     = "informd/"
)

// Source is the CloudEvents source: "informd/<cluster>".
func (e *Event) Source() string { return sourcePrefix + e.Cluster }

// Subject is the CloudEvents subject: "<group or core>/<resource>/<namespace>/<name>",
// without the namespace for cluster-scoped objects; the target's name for control events.
// The NATS subject is [Event.NATSSubject].
func (e *Event) Subject() string { return string(e.appendSubject(nil)) }

func (e *Event) appendSubject(dst []byte) []byte {
	if e.Op.Control() {
		return append(dst, e.Target...)
	}
	dst = append(append(dst, GroupOrCore(e.Group)...), '/')
	dst = append(append(dst, e.Resource...), '/')
	if e.Namespace != "" {
		dst = append(append(dst, e.Namespace...), '/')
	}
	return append(dst, e.Name...)
}

// composed are the attribute texts that are no fields of an event.
type composed struct {
	source, kind, subject, time string
	numbers                     [numberCount]string
}

// compose builds them in one allocation.
func (e *Event) compose() composed {
	var array [320]byte
	b := append(append(array[:0], sourcePrefix...), e.Cluster...)
	source := len(b)
	b = append(append(b, typePrefix...), e.Op...)
	kind := len(b)
	b = e.appendSubject(b)
	subject := len(b)
	b = e.Time.UTC().AppendFormat(b, form.TimeFormat)
	end := len(b)
	var ends [numberCount]int
	for i, n := range e.Numbers() {
		b = appendRevision(b, *n)
		ends[i] = len(b)
	}
	all := string(b)
	made := composed{source: all[:source], kind: all[source:kind], subject: all[kind:subject], time: all[subject:end]}
	for i, next := range ends {
		made.numbers[i] = all[end:next]
		end = next
	}
	return made
}

// appendRevision appends a revision or another number, and nothing for 0, which means none.
func appendRevision(dst []byte, rv uint64) []byte {
	if rv == 0 {
		return dst
	}
	return strconv.AppendUint(dst, rv, 10)
}

// attributes calls add for the event's context attributes in their documented order: with the
// header, the value in the canonical string form of CloudEvents, and whether JSON has it bare,
// without quotes. All wire forms use it, so that they cannot differ. Revisions are strings, as
// everywhere in Kubernetes, because JavaScript's numbers are exact up to 2^53 only. Runs are
// strings, because CloudEvents' integers have 32 bits.
func (e *Event) attributes(add func(header, value string, bare bool)) {
	text := func(header, value string) {
		if value != "" {
			add(header, value, false)
		}
	}
	made := e.compose()
	text("ce-specversion", specVersion)
	text("ce-id", e.ID)
	text("ce-source", made.source)
	text("ce-type", made.kind)
	text("ce-subject", made.subject)
	text("ce-time", made.time)
	if e.Data != nil {
		text("ce-datacontenttype", contentType)
	}
	text("ce-cluster", e.Cluster)
	text("ce-op", string(e.Op))
	add("ce-group", e.Group, false) // "" is the core group's name
	texts := e.Texts()
	for i, header := range textHeaders() {
		if header != "" {
			text(header, *texts[i])
		}
	}
	for i, header := range numberHeaders() {
		if made.numbers[i] != "" {
			add(header, made.numbers[i], header == "ce-ordinal" || header == "ce-epoch")
		}
	}
	if e.Gap != nil {
		text("ce-fromrv", strconv.FormatUint(e.Gap.From, 10))
		text("ce-torv", strconv.FormatUint(e.Gap.To, 10))
		text("ce-reason", e.Gap.Reason)
		text("ce-recovered", string(e.Gap.Recovered))
		text("ce-trimmed", string(appendRevision(nil, e.Gap.Trimmed)))
	}
	add("ce-replay", strconv.FormatBool(e.Replay), true)
}

// nameOf is the name of the attribute with a header.
func nameOf(header string) string { return header[len("ce-"):] }

// AppendJSON appends the event in CloudEvents 1.0 JSON format, on one line
// without a newline, to dst.
func (e *Event) AppendJSON(dst []byte) []byte {
	before := `{"`
	e.attributes(func(header, value string, bare bool) {
		dst = append(append(dst, before...), nameOf(header)...)
		dst = append(dst, `":`...)
		if bare {
			dst = append(dst, value...)
		} else {
			dst = jsonend.AppendString(dst, value)
		}
		before = `,"`
	})
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}')
}

// AppendJSONBatch appends the events as one CloudEvents JSON batch to dst.
func AppendJSONBatch(dst []byte, events []Event) []byte {
	dst = append(dst, '[')
	for i := range events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = events[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

// AppendAttributes calls add for every CloudEvents context attribute with its unescaped
// value in canonical string form, as the headers of the Kafka binding need it. The value
// may hold any byte that the API server accepts.
func (e *Event) AppendAttributes(add func(name, value string)) {
	e.attributes(func(header, value string, _ bool) { add(nameOf(header), value) })
}

// AppendHeaders calls add for every attribute of the CloudEvents binary mode: "ce-<name>"
// and its value, percent-encoded as in the CloudEvents HTTP binding (1.0.2, section
// 3.1.3.2), so that no name or label can break out of a header. If there is Data, it also calls add
// for "content-type".
func (e *Event) AppendHeaders(add func(name, value string)) {
	e.attributes(func(header, value string, _ bool) {
		if header == "ce-datacontenttype" {
			add("content-type", value)
		} else {
			add(header, headerValue(value))
		}
	})
}

// headerValue percent-encodes the characters that the CloudEvents HTTP binding names:
// space, double quote, percent, and everything outside printable ASCII.
func headerValue(s string) string {
	for i := range len(s) {
		if !plainInHeader(s[i]) {
			return percentEncode(s, plainInHeader)
		}
	}
	return s
}

func plainInHeader(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }

// percentEncode replaces every byte that is not plain by %XX.
func percentEncode(s string, plain func(byte) bool) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+16)
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}
