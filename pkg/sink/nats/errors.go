package nats

import (
	"errors"
	"fmt"
	"io"
	"strings"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/natsconn"
	"github.com/informd/informd/pkg/sink"
)

// Codes of JetStream errors that the client library has no names for.
const (
	codeInsufficientResources jetstream.ErrorCode = 10023
	codeStorageExceeded       jetstream.ErrorCode = 10047
	codeSubjectsOverlap       jetstream.ErrorCode = 10065
	codeStoreFailed           jetstream.ErrorCode = 10077
	codeHeaderTooLarge        jetstream.ErrorCode = 10097
)

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

// explainAck judges why the stream did not take a message. Only a message that is
// too big can never be delivered; everything else heals when somebody acts.
func explainAck(err error, stream string) error {
	var refusal *jetstream.APIError
	if !errors.As(err, &refusal) {
		switch {
		case errors.Is(err, jetstream.ErrNoStreamResponse):
			return fmt.Errorf("no stream takes the event; is stream %s gone, or JetStream down? %w", stream, err)
		case errors.Is(err, jetstream.ErrAsyncPublishTimeout):
			return fmt.Errorf("stream %s has not acknowledged within %v (server overloaded, frozen, or its disk full?): %w", stream, ackTimeout, err)
		case errors.Is(err, client.ErrReconnectBufExceeded), errors.Is(err, client.ErrDisconnected):
			return fmt.Errorf("connection lost before stream %s acknowledged: %w", stream, err)
		}
		return err
	}
	switch refusal.ErrorCode {
	case jetstream.JSErrCodeStreamMessageExceedsMaximum, codeHeaderTooLarge:
		return sink.Permanent(fmt.Errorf("stream %s refuses the event for its size: %w", stream, err))
	case codeStoreFailed:
		if strings.Contains(refusal.Description, "too large") {
			return sink.Permanent(fmt.Errorf("stream %s refuses the event for its size: %w", stream, err))
		}
		return fmt.Errorf("stream %s takes no more: %w; raise its limits or purge it", stream, err)
	case codeInsufficientResources, codeStorageExceeded:
		return fmt.Errorf("JetStream's storage is full: %w; raise the server's or the account's limit, or purge streams", err)
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return fmt.Errorf("stream %s received something else for this object meanwhile: %w", stream, err)
	}
	return fmt.Errorf("stream %s refuses the event: %w", stream, err)
}
