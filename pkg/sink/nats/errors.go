package nats

import (
	"errors"
	"fmt"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/sink"
)

// codeSubjectsOverlap is a JetStream error that the client library has no name for.
const codeSubjectsOverlap jetstream.ErrorCode = 10065

// explainAck classifies why the stream did not store a message. A message that is too large
// can never be delivered. An error of an unknown kind may be caused by this message. All
// others end when an operator acts.
func explainAck(err error, stream string) error {
	switch refusalOf(err) {
	case refusedForGood:
		return sink.Permanent(fmt.Errorf("stream %s refuses the event for its size: %w", stream, err))
	case refusedFull:
		return fmt.Errorf("stream %s is full: %w; raise its limits, or those of the server or the account, or purge it", stream, err)
	case refusedStale:
		return fmt.Errorf("stream %s received another message for this object meanwhile: %w", stream, err)
	case refusedUnknown:
		return sink.Unknown(fmt.Errorf("stream %s refuses the event: %w", stream, err))
	case refusedForNow:
	}
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream answers for the subject: %w; check that stream %s exists and JetStream is up", err, stream)
	case errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		return fmt.Errorf("stream %s has not acknowledged within %v: %w; check the load and the disk of the server", stream, ackTimeout, err)
	case errors.Is(err, client.ErrConnectionClosed):
		return fmt.Errorf("connection lost before stream %s acknowledged: %w", stream, err)
	}
	if _, ok := errors.AsType[*jetstream.APIError](err); ok {
		return fmt.Errorf("stream %s refuses the event for now: %w", stream, err)
	}
	return err
}
