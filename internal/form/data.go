package form

import (
	"bytes"
	"encoding/json"

	"github.com/informd/informd/internal/jsonend"
)

// The data of an event is {"object":<object>}. The data of a deletion is
// {"object":<object>,"final":<bool>}, or {"final":false} if only the identity is known.
// Only the bytes after the object differ, so informd writes the object once, when it reads
// the object, before the operation is known. Additions of an entry precede the object
// ([AddMembers]), so that informd finds the object without parsing it.
const (
	dataOpen     = `{"object":`
	dataClose    = `}`
	dataFinal    = `,"final":true}`
	dataNotFinal = `,"final":false}`
	dataIdentity = `{"final":false}`
)

// DataOverhead is the largest number of bytes of data beside the object and additions.
const DataOverhead = len(dataOpen) + len(dataNotFinal)

// OpenData appends the beginning of an event's data to dst. The caller then appends the
// object, valid JSON on one line, and calls [CloseData] or [CloseDeletedData].
func OpenData(dst []byte) []byte { return append(dst, dataOpen...) }

// CloseData completes the data of a snapshot, added, modified, entered or left event.
func CloseData(dst []byte) []byte { return append(dst, dataClose...) }

// CloseDeletedData completes the data of a deletion. If final is true, the object is surely
// the last state.
func CloseDeletedData(dst []byte, final bool) []byte {
	if final {
		return append(dst, dataFinal...)
	}
	return append(dst, dataNotFinal...)
}

// IdentityData is the data of a deletion without an object. The event's attributes have the
// identity.
func IdentityData() []byte { return []byte(dataIdentity) }

// state is the data of a state event.
type state struct {
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// StateData is the data of a state event: {"state":"forbidden","reason":"..."}. The reason
// may be empty.
func StateData(of, reason string) []byte {
	data, _ := json.Marshal(state{of, reason}) // strings can always be encoded
	return data
}

// ParseStateData returns the arguments of [StateData]; both are empty for other data.
func ParseStateData(data []byte) (of, reason string) {
	var s state
	if json.Unmarshal(data, &s) != nil {
		return "", ""
	}
	return s.State, s.Reason
}

// Member is one member of an event's data beside the object.
type Member struct {
	Name string
	// Value is valid JSON on one line.
	Value []byte
}

// AddMembers returns a copy of complete data (see [CloseData] and [CloseDeletedData]) with
// members before all others, in their order. Without members it returns data itself.
func AddMembers(data []byte, members ...Member) []byte {
	if len(members) == 0 {
		return data
	}
	size := len(data)
	for _, m := range members {
		size += len(m.Name) + len(m.Value) + len(`"":,`)
	}
	dst := append(make([]byte, 0, size), '{')
	for _, m := range members {
		dst = append(append(append(dst, '"'), m.Name...), `":`...)
		dst = append(append(dst, m.Value...), ',')
	}
	return append(dst, data[1:]...)
}

// Object returns the object inside data, a part of it, or nil if there is none.
func Object(data []byte) []byte {
	members := EachMember(data, func(Member) {})
	if !bytes.HasPrefix(members, []byte(dataOpen[1:])) {
		return nil
	}
	object := members[len(dataOpen)-1:]
	// No object ends in "true" or "false", so these suffixes are unambiguous.
	for _, end := range []string{dataFinal, dataNotFinal, dataClose} {
		if inner, ok := bytes.CutSuffix(object, []byte(end)); ok {
			return inner
		}
	}
	return nil
}

// EachMember calls visit for each member of [AddMembers], and returns the rest of data: from the name of the
// object on. It returns nil for data of another form.
func EachMember(data []byte, visit func(Member)) (rest []byte) {
	if !bytes.HasPrefix(data, []byte("{")) {
		return nil
	}
	rest = data[1:]
	for !own(rest) {
		name, behind, named := cutValue(rest, ':')
		value, behind, ok := cutValue(behind, ',')
		if !named || !ok {
			return nil
		}
		visit(Member{Name: string(bytes.Trim(name, `"`)), Value: value})
		rest = behind
	}
	return rest
}

// own reports whether text begins with the object, or is that of [IdentityData].
func own(text []byte) bool {
	return bytes.HasPrefix(text, []byte(dataOpen[1:])) || bytes.Equal(text, []byte(dataIdentity[1:]))
}

// cutValue cuts off the JSON value at the beginning of text and the byte before behind, which
// must follow it. It reads only as far as the end of the value.
func cutValue(text []byte, before byte) (value, behind []byte, ok bool) {
	end := jsonend.Value(text, len(text)-len(bytes.TrimLeft(text, " \t\r\n")))
	if end == jsonend.None || end >= len(text) || text[end] != before {
		return nil, nil, false
	}
	return text[:end], text[end+1:], true
}
