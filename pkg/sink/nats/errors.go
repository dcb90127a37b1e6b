package nats

import (
	"errors"
	"fmt"
	"io"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/natsconn"
	"github.com/informd/informd/pkg/natsconn/refusal"
	"github.com/informd/informd/pkg/sink"
)

// codeSubjectsOverlap is a JetStream error that the client library has no name for.
const codeSubjectsOverlap jetstream.ErrorCode = 10065

// explain adds what to do to errors that only the user can mend. explain(nil) is
// nil.
func explain(err error) error { return natsconn.Explain(err, "") }

// orEOF gives the silent end of a connection a name.
func orEOF(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return errors.New("closed by the server")
	}
	return explain(err)
}

// explainAck judges why the stream did not take a message. One that is too big can never
// be delivered; an error that no message is known to have may be about this one. All
// others heal when somebody acts.
func explainAck(err error, stream string) error {
	switch refusal.Of(err) {
	case refusal.Oversized, refusal.Never:
		return sink.Permanent(fmt.Errorf("stream %s refuses the event for its size: %w", stream, err))
	case refusal.Full:
		return fmt.Errorf("stream %s takes no more: %w; raise its limits, or those of the server or the account, or purge it", stream, err)
	case refusal.Stale:
		return fmt.Errorf("stream %s received something else for this object meanwhile: %w", stream, err)
	case refusal.Unknown:
		return sink.Unknown(fmt.Errorf("stream %s refuses the event: %w", stream, err))
	case refusal.Passing:
	}
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream takes the event; is stream %s gone, or JetStream down? %w", stream, err)
	case errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		return fmt.Errorf("stream %s has not acknowledged within %v (server overloaded, frozen, or its disk full?): %w", stream, ackTimeout, err)
	case errors.Is(err, client.ErrReconnectBufExceeded), errors.Is(err, client.ErrDisconnected):
		return fmt.Errorf("connection lost before stream %s acknowledged: %w", stream, err)
	}
	if _, ok := errors.AsType[*jetstream.APIError](err); ok {
		return fmt.Errorf("stream %s does not take the event now: %w", stream, err)
	}
	return err
}
