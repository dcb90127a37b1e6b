package postgres

import (
	"bytes"
	"encoding/json"
	"strconv"
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
		if string(e.Data) == `{"final":false}` {
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

// appendCopy appends a value in the text form of COPY.
func appendCopy(dst []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return appendEscaped(dst, v)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case bool:
		return strconv.AppendBool(dst, v)
	case time.Time:
		return v.UTC().AppendFormat(dst, "2006-01-02T15:04:05.999999Z07:00")
	case json.RawMessage:
		if v != nil {
			return appendEscaped(dst, v)
		}
	}
	return append(dst, `\N`...)
}

// appendEscaped appends a text without what ends a column or a row, or begins an escape.
func appendEscaped[T string | json.RawMessage](dst []byte, text T) []byte {
	from := 0
	for i := range len(text) {
		if text[i] != '\\' && text[i] > '\r' {
			continue
		}
		if at := strings.IndexByte("\\\n\r\t", text[i]); at >= 0 {
			dst = append(append(append(dst, text[from:i]...), '\\'), `\nrt`[at])
			from = i + 1
		}
	}
	return append(dst, text[from:]...)
}
