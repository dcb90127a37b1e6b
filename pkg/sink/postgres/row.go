package postgres

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/informd/informd/pkg/event"
)

// field is a column of the table history and its value.
type field struct {
	column string
	kind   kind
	text   string
	bytes  []byte // of a jsonb; nil is NULL
	number uint64 // of a numeric, the microseconds since 1970 of a time, 0 or 1 of a boolean
	null   bool
}

// kind is the type of a column.
type kind int

const (
	kindText kind = iota
	kindNumber
	kindBool
	kindTime
	kindJSON
)

// appendRow appends the values of an event's row to dst, in the order of its columns, without cluster
// and position. Raw has the row keep the whole event as text, because a column cannot hold it.
func appendRow(dst []field, e *event.Event, raw bool) []field {
	text := func(column, value string) { dst = append(dst, field{column: column, text: clean(value)}) }
	number := func(column string, n uint64) { dst = append(dst, field{column: column, kind: kindNumber, number: n}) }
	boolean := func(column string, is bool) {
		f := field{column: column, kind: kindBool}
		if is {
			f.number = 1
		}
		dst = append(dst, f)
	}
	json := func(column string, value []byte) {
		if raw {
			value = nil
		}
		dst = append(dst, field{column: column, kind: kindJSON, bytes: value, null: value == nil})
	}
	text("id", e.ID)
	text("op", string(e.Op))
	dst = append(dst, field{column: "time", kind: kindTime, number: uint64(e.Time.UnixMicro())})
	text("target", e.Target)
	text("api_group", e.Group)
	text("version", e.Version)
	text("resource", e.Resource)
	text("kind", e.Kind)
	text("namespace", e.Namespace)
	text("name", e.Name)
	text("uid", e.UID)
	number("revision", e.ResourceVersion)
	number("previous", e.PrevResourceVersion)
	number("ordinal", e.Ordinal)
	number("epoch", e.Epoch)
	number("run", e.Run)
	boolean("replay", e.Replay)
	boolean("redelivered", e.Redelivered)
	object, more, final, has := splitData(e)
	boolean("final", final)
	dst[len(dst)-1].null = !has
	json("object", object)
	json("more", more)
	whole := field{column: "raw", null: !raw}
	if raw {
		whole.text = strings.ToValidUTF8(string(e.AppendJSON(nil)), "\uFFFD")
	}
	return append(dst, whole)
}

// splitData returns the object in the data of an event, and the data without the object and "final", nil
// if there is none. Has reports whether final is there.
func splitData(e *event.Event) (object, more []byte, final, has bool) {
	object = e.Object()
	if object == nil {
		if bytes.Equal(e.Data, event.IdentityData()) {
			return nil, nil, false, true
		}
		return nil, e.Data, false, false
	}
	before, final := bytes.CutSuffix(e.Data, []byte(`,"final":true}`))
	has = final
	if !final {
		if before, has = bytes.CutSuffix(e.Data, []byte(`,"final":false}`)); !has {
			before = e.Data[:len(e.Data)-1]
		}
	}
	// A comma ends what precedes the object.
	before = before[:len(before)-len(object)-len(`"object":`)]
	if len(before) > 1 {
		more = append(bytes.Clone(before[:len(before)-1]), '}')
	}
	return object, more, final, has
}

// clean replaces what a text of PostgreSQL cannot hold.
func clean(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// fits reports whether the columns hold the event as it is.
func fits(e *event.Event) bool {
	for _, s := range []string{e.ID, e.Target, e.Group, e.Version, e.Resource, e.Kind, e.Namespace, e.Name, e.UID} {
		if clean(s) != s {
			return false
		}
	}
	return storable(e.Data)
}

// copyHeader begins data in the binary form of COPY, copyTrailer ends it.
const (
	copyHeader  = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	copyTrailer = "\xff\xff"
)

// appendCopy appends a row in the binary form of COPY to dst.
func appendCopy(dst []byte, cluster string, position int64, row []field) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(row)+2))
	dst = appendText(dst, cluster)
	dst = binary.BigEndian.AppendUint32(dst, 8)
	dst = binary.BigEndian.AppendUint64(dst, uint64(position))
	for i := range row {
		dst = row[i].appendCopy(dst)
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...)
}

// epoch2000 is the zero of times in PostgreSQL, 2000-01-01, in microseconds since 1970.
const epoch2000 = 946_684_800_000_000

func (f *field) appendCopy(dst []byte) []byte {
	if f.null {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	switch f.kind {
	case kindText:
		return appendText(dst, f.text)
	case kindNumber:
		return appendNumeric(dst, f.number)
	case kindBool:
		return append(dst, 0, 0, 0, 1, byte(f.number))
	case kindTime:
		dst = binary.BigEndian.AppendUint32(dst, 8)
		return binary.BigEndian.AppendUint64(dst, uint64(int64(f.number)-epoch2000))
	case kindJSON:
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.bytes)+1))
		dst = append(dst, 1) // the version of the form
		return append(dst, f.bytes...)
	}
	panic("postgres: a kind without a form")
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
	dst = binary.BigEndian.AppendUint32(dst, uint32(8+2*count))
	dst = binary.BigEndian.AppendUint16(dst, uint16(count))
	dst = binary.BigEndian.AppendUint16(dst, uint16(int16(max(count-1, 0)))) // the weight of the first digit
	dst = append(dst, 0, 0, 0, 0)                                            // positive, no fraction
	for _, digit := range digits[first:] {
		dst = binary.BigEndian.AppendUint16(dst, digit)
	}
	return dst
}
