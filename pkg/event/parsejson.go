package event

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ParseJSON is the inverse of [Event.AppendJSON], with the limits of
// [ParseHeaders].
func ParseJSON(text []byte) (Event, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return Event{}, fmt.Errorf("parse event: %w", err)
	}
	e, err := ParseHeaders(func(name string) string {
		raw := members[strings.TrimPrefix(name, "ce-")]
		var value string
		if json.Unmarshal(raw, &value) != nil {
			value = string(raw) // a number, true or false
		}
		return headerValue(value)
	})
	if err != nil {
		return Event{}, fmt.Errorf("parse event: %w", err)
	}
	e.Data = members["data"]
	return e, nil
}
