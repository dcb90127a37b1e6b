package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/informd/informd/pkg/event"
)

// field is a column of the table history and its value: a string, a uint64 of a numeric, an int64, a bool, a
// [time.Time], the [json.RawMessage] of a jsonb, or nil for NULL.
type field struct {
	column string
	value  any
}

// appendRow appends the values of an event's row to dst, in the order of its columns, without cluster
// and position. Raw has the row keep the whole event as text, because a column cannot hold it.
func appendRow(dst []field, e *event.Event, raw bool) []field {
	object, more, final := splitData(e)
	var whole any
	if raw = raw || !fits(e); raw {
		object, more, whole = nil, nil, strings.ToValidUTF8(string(e.AppendJSON(nil)), "\uFFFD")
	}
	return append(
		dst,
		field{"id", clean(e.ID)}, field{"op", string(e.Op)}, field{"time", e.Time}, field{"target", clean(e.Target)},
		field{"api_group", clean(e.Group)}, field{"version", clean(e.Version)}, field{"resource", clean(e.Resource)},
		field{"kind", clean(e.Kind)}, field{"namespace", clean(e.Namespace)}, field{"name", clean(e.Name)}, field{"uid", clean(e.UID)},
		field{"revision", e.ResourceVersion}, field{"previous", e.PrevResourceVersion}, field{"ordinal", e.Ordinal},
		field{"epoch", e.Epoch}, field{"run", e.Run}, field{"replay", e.Replay}, field{"redelivered", e.Redelivered},
		field{"final", final}, field{"object", object}, field{"more", more}, field{"raw", whole},
	)
}

// splitData returns the object in the data of an event, the data without the object and "final", and the value of
// "final". What there is none of is nil.
func splitData(e *event.Event) (object, more json.RawMessage, final any) {
	object = e.Object()
	if object == nil {
		if bytes.Equal(e.Data, event.IdentityData()) {
			return nil, nil, false
		}
		return nil, e.Data, nil
	}
	before := e.Data[:len(e.Data)-1]
	if rest, has := bytes.CutSuffix(e.Data, []byte(`,"final":true}`)); has {
		before, final = rest, true
	} else if rest, has := bytes.CutSuffix(e.Data, []byte(`,"final":false}`)); has {
		before, final = rest, false
	}
	// A comma ends what precedes the object.
	before = before[:len(before)-len(object)-len(`"object":`)]
	if len(before) > 1 {
		more = append(bytes.Clone(before[:len(before)-1]), '}')
	}
	return object, more, final
}

// clean replaces what a text of PostgreSQL cannot hold.
func clean(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// fits reports whether the columns hold the event as it is, as far as that is known before: any tenant can have
// \u0000 in an object. What else jsonb refuses is rare, and the server says so.
func fits(e *event.Event) bool {
	for _, s := range []string{e.ID, e.Target, e.Group, e.Version, e.Resource, e.Kind, e.Namespace, e.Name, e.UID} {
		if clean(s) != s {
			return false
		}
	}
	nul := []byte(`\u0000`)
	for rest := e.Data; ; {
		before, after, found := bytes.Cut(rest, nul)
		if !found {
			return true
		}
		if backslashes := len(before) - len(bytes.TrimRight(before, `\`)); backslashes%2 == 0 {
			return false // else it is an escaped backslash
		}
		rest = after
	}
}

// copyHeader begins data in the binary form of COPY, copyTrailer ends it.
const (
	copyHeader  = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	copyTrailer = "\xff\xff"
)

// epoch2000 is the zero of times in PostgreSQL, 2000-01-01, in microseconds since 1970.
const epoch2000 = 946_684_800_000_000

// appendCopy appends a value in the binary form of COPY, its length before it.
func appendCopy(dst []byte, value any) []byte {
	begin := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	switch v := value.(type) {
	case string:
		dst = append(dst, v...)
	case uint64:
		dst = appendNumeric(dst, v)
	case int64:
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	case bool:
		dst = append(dst, 0)
		if v {
			dst[len(dst)-1] = 1
		}
	case time.Time:
		dst = binary.BigEndian.AppendUint64(dst, uint64(v.UnixMicro()-epoch2000))
	case json.RawMessage:
		if v == nil {
			return appendCopy(dst[:begin], nil)
		}
		dst = append(append(dst, 1), v...) // the version of the form
	default:
		return append(dst[:begin], 0xff, 0xff, 0xff, 0xff)
	}
	binary.BigEndian.PutUint32(dst[begin:], uint32(len(dst)-begin-4))
	return dst
}

// appendNumeric appends a number as numeric: digits to the base 10,000, the highest first.
func appendNumeric(dst []byte, n uint64) []byte {
	const base, most = 10_000, 5
	var digits [most]uint16
	first := most
	for ; n > 0; n /= base {
		first--
		digits[first] = uint16(n % base)
	}
	count := most - first
	dst = binary.BigEndian.AppendUint16(dst, uint16(count))
	dst = binary.BigEndian.AppendUint16(dst, uint16(max(count-1, 0))) // the weight of the first digit
	dst = append(dst, 0, 0, 0, 0)                                     // positive, no fraction
	for _, digit := range digits[first:] {
		dst = binary.BigEndian.AppendUint16(dst, digit)
	}
	return dst
}
