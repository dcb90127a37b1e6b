package nats

import (
	"testing"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/sink"
)

// TestRefusalsOfAStream: what follows for an event.
func TestRefusalsOfAStream(t *testing.T) {
	answer := func(status int, code jetstream.ErrorCode) error {
		return &jetstream.APIError{Code: status, ErrorCode: code, Description: "no"}
	}
	for name, tt := range map[string]struct {
		err                error
		permanent, unknown bool
	}{
		"larger than the stream permits": {err: answer(400, 10054), permanent: true},
		"header too large":               {err: answer(400, 10097), permanent: true},
		"larger than the server permits": {err: client.ErrMaxPayload, permanent: true},
		"full":                           {err: answer(503, 10077)},
		"account full":                   {err: answer(400, 10002)},
		"later message":                  {err: answer(400, 10071)},
		"no leader":                      {err: answer(503, 10008)},
		"no answer":                      {err: jetstream.ErrNoStreamResponse},
		"none that is known":             {err: answer(400, 10003), unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := explainAck(tt.err, "K8S")
			if sink.IsPermanent(err) != tt.permanent || sink.IsUnknown(err) != tt.unknown {
				t.Errorf("%v: permanent %t, unknown %t, want %t, %t", err, sink.IsPermanent(err), sink.IsUnknown(err), tt.permanent, tt.unknown)
			}
		})
	}
	if err := explainAck(nil, "K8S"); err != nil {
		t.Errorf("%v of no error", err)
	}
}
