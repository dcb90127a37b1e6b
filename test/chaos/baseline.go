package chaos

import (
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
)

// decodeBaseline reads a message of the hand-written informer program.
func decodeBaseline(headers nats.Header, data []byte) (Delivery, error) {
	var m struct {
		Op, Group, Resource string
		Object              json.RawMessage
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return Delivery{}, fmt.Errorf("decode message: %w", err)
	}
	o, err := decodeObject(m.Object)
	if err != nil {
		return Delivery{}, err
	}
	return Delivery{
		ID: headers.Get(nats.MsgIdHdr), Op: m.Op, Target: targetName(m.Group, m.Resource),
		Namespace: o.namespace, Name: o.name, UID: o.uid, RV: o.rv,
		// A tombstone of the informer does not say that it is one.
		Replay:    m.Op == opDeleted,
		HasObject: true, Hash: o.hash, BodyRV: o.rv,
	}, nil
}
