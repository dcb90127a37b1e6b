package nats

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/sink"
)

// Codes of JetStream errors that the client library has no names for.
const (
	codeAccountResources      jetstream.ErrorCode = 10002
	codeInsufficientResources jetstream.ErrorCode = 10023
	codeStorageExceeded       jetstream.ErrorCode = 10047
	codeSubjectsOverlap       jetstream.ErrorCode = 10065
	codeStoreFailed           jetstream.ErrorCode = 10077
	codeHeaderTooLarge        jetstream.ErrorCode = 10097
	codeStreamSealed          jetstream.ErrorCode = 10109
)

// refusal is what the error of a publish to a stream means for the message: whether another try can
// help.
type refusal int

const (
	// refusedForNow: the server may take the message later as it is. Most errors are so: no
	// leader, no answer, a stream that is missing, sealed or offline.
	refusedForNow refusal = iota
	// refusedFull: there is no free space. Every message waits.
	refusedFull
	// refusedStale: the last message of the subject is not the one that was expected.
	refusedStale
	// refusedForGood: the message is too large for the stream or the server.
	refusedForGood
	// refusedUnknown: the error is none that a message is known to have. If the stream takes
	// other messages, it is this one that the server does not want.
	refusedUnknown
)

// refusalOf says what the error of a publish means for the message. It is of no use for nil.
func refusalOf(err error) refusal {
	if errors.Is(err, client.ErrMaxPayload) {
		return refusedForGood
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return refusedForNow // of the connection, or no answer
	}
	switch api.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return refusedStale
	case jetstream.JSErrCodeStreamMessageExceedsMaximum, codeHeaderTooLarge:
		return refusedForGood
	case codeStoreFailed:
		if strings.Contains(api.Description, "too large") {
			return refusedForGood
		}
		return refusedFull
	case codeAccountResources, codeInsufficientResources, codeStorageExceeded:
		return refusedFull
	case codeStreamSealed:
		return refusedForNow // until an operator has changed it
	}
	if api.Code >= http.StatusInternalServerError || api.Code == http.StatusTooManyRequests || api.Code == http.StatusNotFound {
		return refusedForNow
	}
	return refusedUnknown
}

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
