package view

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/nats-io/nats.go"
)

// event has the attributes of an informd event that a view needs.
type event struct {
	op     string
	key    Key
	uid    string
	target string // of a control event: "<group>/<resource>[@<namespace>]"
	at     Revision
	run    uint64
	object json.RawMessage
}

// control reports whether the event is of a target, not of an object.
func (e *event) control() bool {
	switch e.op {
	case "begin", "synced", "gap", "state":
		return true
	}
	return false
}

// decode reads an event from a message of a nats sink with `format: binary`.
func decode(header nats.Header, body []byte) (*event, error) {
	var bad error
	text := func(name string) string {
		value, err := url.PathUnescape(header.Get("ce-" + name))
		if err != nil {
			bad = fmt.Errorf("header ce-%s: %w", name, err)
		}
		return value
	}
	number := func(name string) uint64 {
		value := text(name)
		if value == "" {
			return 0
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			bad = fmt.Errorf("header ce-%s: %w", name, err)
		}
		return n
	}
	e := &event{
		op:  text("op"),
		key: Key{Cluster: text("cluster"), Group: text("group"), Resource: text("resource"), Namespace: text("namespace"), Name: text("name")},
		uid: text("uid"), run: number("run"),
		at: Revision{Epoch: number("epoch"), ResourceVersion: number("resourceversion"), Ordinal: number("ordinal")},
	}
	if e.op == "" {
		return nil, fmt.Errorf("the message has no ce-op: is the sink's format binary?")
	}
	if e.control() {
		e.target = text("subject")
		return e, bad
	}
	var data struct {
		Object json.RawMessage `json:"object"`
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &data); err != nil {
			return nil, fmt.Errorf("data of %s: %w", text("id"), err)
		}
	}
	e.object = data.Object
	return e, bad
}
