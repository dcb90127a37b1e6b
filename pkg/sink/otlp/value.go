package otlp

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/informd/informd/internal/jsonend"
)

// maxDepth is how many objects and arrays may be nested in a body. Parsers of protocol buffers
// refuse deep messages, and with them the whole request: what is deeper is its JSON text.
const maxDepth = 30

// Fields of AnyValue.
const stringValue, arrayValue, kvlistValue protowire.Number = 1, 5, 6

// message is a message in the making, in the wire format of protocol buffers. As structs, bodies would take
// several times the CPU: four allocations for each member of an object.
type message struct {
	bytes []byte
	err   error // of put
}

// put writes the fields that a struct has.
func (m *message) put(fields proto.Message) {
	bytes, err := proto.Marshal(fields)
	m.bytes, m.err = append(m.bytes, bytes...), errors.Join(m.err, err)
}

// open begins a message in a field, which ends with close.
func (m *message) open(field protowire.Number) (at int) {
	m.bytes = append(protowire.AppendTag(m.bytes, field, protowire.BytesType), 0)
	return len(m.bytes) - 1
}

// close writes the length of what was written since open, which is known now only.
func (m *message) close(at int) {
	n := len(m.bytes) - at - 1
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		m.bytes = append(m.bytes, make([]byte, more)...)
		copy(m.bytes[at+1+more:], m.bytes[at+1:][:n])
	}
	protowire.AppendVarint(m.bytes[:at], uint64(n))
}

// text writes a text. Protocol buffers have UTF-8 only: other bytes become U+FFFD.
func (m *message) text(field protowire.Number, text string) {
	m.bytes = protowire.AppendString(protowire.AppendTag(m.bytes, field, protowire.BytesType), strings.ToValidUTF8(text, "\uFFFD"))
}

// attribute makes an attribute of a text, with U+FFFD for what is not UTF-8.
func attribute(key, text string) *common.KeyValue {
	value := &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(text, "\uFFFD")}
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: value}}
}

// value writes the AnyValue of the JSON value at the beginning of a text, and returns what is behind it.
// The members of objects stay in their order. Whole numbers of 64 bits with a sign are integers, as in
// Kubernetes, and null is a value without content. A text that is no JSON is a string as a whole.
func (m *message) value(text []byte, depth int) (behind []byte) {
	if text = trim(text); len(text) == 0 {
		return nil
	}
	if nests := text[0] == '{' || text[0] == '['; nests && depth < maxDepth {
		return m.nested(text, depth)
	}
	one, behind := cut(text)
	switch {
	case one[0] == '"':
		m.text(stringValue, unquote(one))
	case one[0] == 'n':
	case one[0] == 't', one[0] == 'f':
		m.bytes = protowire.AppendVarint(protowire.AppendTag(m.bytes, 2, protowire.VarintType), protowire.EncodeBool(one[0] == 't')) // bool_value
	default:
		m.number(string(one))
	}
	return behind
}

// number writes a number, or what is none as its text: the JSON of something too deep, or 1e999.
func (m *message) number(text string) {
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		m.bytes = protowire.AppendVarint(protowire.AppendTag(m.bytes, 3, protowire.VarintType), uint64(whole)) // int_value
	} else if number, err := strconv.ParseFloat(text, 64); err == nil {
		m.bytes = protowire.AppendFixed64(protowire.AppendTag(m.bytes, 4, protowire.Fixed64Type), math.Float64bits(number)) // double_value
	} else {
		m.text(stringValue, text)
	}
}

// nested writes an object or an array.
func (m *message) nested(text []byte, depth int) (behind []byte) {
	field, end := arrayValue, byte(']')
	if text[0] == '{' {
		field, end = kvlistValue, '}'
	}
	list := m.open(field)
	text = trim(text[1:])
	for len(text) > 0 && text[0] != end {
		one := m.open(1)
		if field == kvlistValue {
			var key []byte
			key, text = cut(text)
			m.text(1, unquote(key))
			value := m.open(2)
			text = m.value(text, depth+1)
			m.close(value)
		} else {
			text = m.value(text, depth+1)
		}
		m.close(one)
		text = trim(text)
	}
	m.close(list)
	return text[min(1, len(text)):]
}

// trim removes what is between values.
func trim(text []byte) []byte { return bytes.TrimLeft(text, " \t\r\n,:") }

// cut cuts off the value at the beginning of a text. A text without one is a value as a whole.
func cut(text []byte) (value, behind []byte) {
	end := jsonend.Value(text, 0)
	if end == jsonend.None {
		end = len(text)
	}
	return bytes.TrimRight(text[:end], " \t\r\n"), text[end:]
}

// unquote returns the text of a JSON string, and what is none as it is.
func unquote(quoted []byte) string {
	if text, ok := jsonend.Decode(quoted); ok {
		return string(text)
	}
	return string(quoted)
}
