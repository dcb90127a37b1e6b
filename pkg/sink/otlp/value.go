package otlp

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	common "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/informd/informd/pkg/internal/jsonend"
)

// maxDepth is how many objects and arrays may be nested in a body. Parsers of protocol buffers
// refuse deep messages, and with them the whole request: what is deeper is its JSON text.
const maxDepth = 30

const space = " \t\r\n"

// textValue makes a value of a text. Protocol buffers have UTF-8 only: other bytes become U+FFFD.
func textValue(text string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(text, "\uFFFD")}}
}

// attribute makes an attribute of a text.
func attribute(key, text string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: textValue(text)}
}

// mapOf makes a value of members.
func mapOf(members ...*common.KeyValue) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: members}}}
}

// valueOf makes a value of valid JSON. The members of objects stay in their order. Whole numbers
// of 64 bits with a sign are integers, as in Kubernetes, and null is a value without content. It
// copies all that it needs of the text.
func valueOf(text []byte, depth int) *common.AnyValue {
	text = bytes.Trim(text, space)
	if len(text) == 0 || text[0] == 'n' {
		return &common.AnyValue{}
	}
	switch text[0] {
	case '"':
		return textValue(unquote(text))
	case '{', '[':
		if depth >= maxDepth {
			return textValue(string(text))
		}
		if text[0] == '{' {
			return mapOf(membersOf(text, depth)...)
		}
		return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: elementsOf(text, depth)}}
	case 't', 'f':
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: text[0] == 't'}}
	}
	if whole, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: whole}}
	}
	number, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsInf(number, 0) { // beyond a double: 1e999
		return textValue(string(text))
	}
	return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: number}}
}

func membersOf(object []byte, depth int) []*common.KeyValue {
	var list []*common.KeyValue
	for rest := bytes.TrimLeft(object[1:], space); len(rest) > 0 && rest[0] != '}'; {
		var key, value []byte
		key, rest = cut(rest)
		value, rest = cut(rest)
		list = append(list, &common.KeyValue{Key: strings.ToValidUTF8(unquote(key), "\uFFFD"), Value: valueOf(value, depth+1)})
	}
	return list
}

func elementsOf(array []byte, depth int) *common.ArrayValue {
	list := &common.ArrayValue{}
	for rest := bytes.TrimLeft(array[1:], space); len(rest) > 0 && rest[0] != ']'; {
		var value []byte
		value, rest = cut(rest)
		list.Values = append(list.Values, valueOf(value, depth+1))
	}
	return list
}

// cut cuts off the value at the beginning of text with the comma or colon behind it. Text that has no
// value is a value as a whole, so that no loop over it goes on.
func cut(text []byte) (value, behind []byte) {
	end := jsonend.Value(text, 0)
	if end == jsonend.None {
		return text, nil
	}
	return text[:end], bytes.TrimLeft(text[end:], space+",:")
}

// unquote returns the text of a JSON string.
func unquote(quoted []byte) string {
	if len(quoted) > 1 && bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return string(quoted)
	}
	return text
}
