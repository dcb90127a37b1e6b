package event

import (
	"bytes"
	"encoding/json"
)

// The data of an event is {"object":<object>}; a deletion's is
// {"object":<object>,"final":<bool>}, or {"final":false} if only the identity is
// known. The object comes first and its end is all that differs, so that the
// bytes are written once, when the object is read, before it is known what the
// event will be.
const (
	dataOpen     = `{"object":`
	dataClose    = `}`
	dataFinal    = `,"final":true}`
	dataNotFinal = `,"final":false}`
	dataIdentity = `{"final":false}`
)

// DataOverhead is how many bytes the data of any event has beside its object.
const DataOverhead = len(dataOpen) + len(dataNotFinal)

// OpenData appends the beginning of an event's data to dst. The object follows,
// valid JSON on one line, then [CloseData] or [CloseDeletedData].
func OpenData(dst []byte) []byte { return append(dst, dataOpen...) }

// CloseData ends the data of a snapshot, added, modified, entered or left event.
func CloseData(dst []byte) []byte { return append(dst, dataClose...) }

// CloseDeletedData ends the data of a deletion. Final says whether the object is
// surely the last state.
func CloseDeletedData(dst []byte, final bool) []byte {
	if final {
		return append(dst, dataFinal...)
	}
	return append(dst, dataNotFinal...)
}

// IdentityData is the data of a deletion of which only the identity is known,
// which the event's attributes hold.
func IdentityData() []byte { return []byte(dataIdentity) }

// stateData is the data of a state record.
type stateData struct {
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// StateData is the data of a [State] record: {"state":"forbidden","reason":"..."},
// without a reason where all is well.
func StateData(state, reason string) []byte {
	data, _ := json.Marshal(stateData{state, reason}) // strings can always be encoded
	return data
}

// TargetState reads what [StateData] made; both are empty for other events.
func (e *Event) TargetState() (state, reason string) {
	var d stateData
	if e.Op != State || json.Unmarshal(e.Data, &d) != nil {
		return "", ""
	}
	return d.State, d.Reason
}

// Object returns the normalised object inside Data, or nil if there is none.
// The result aliases Data and must not be changed.
func (e *Event) Object() []byte {
	object, ok := bytes.CutPrefix(e.Data, []byte(dataOpen))
	if !ok {
		return nil
	}
	// No object ends in "true" or "false", so these suffixes are unambiguous.
	for _, end := range []string{dataFinal, dataNotFinal, dataClose} {
		if inner, ok := bytes.CutSuffix(object, []byte(end)); ok {
			return inner
		}
	}
	return nil
}
