// Package refusal says what the error of a publish to a stream of nats-server means for the
// message: whether another try can help. The journal, its lease and the nats sink share it.
package refusal

import (
	"errors"
	"net/http"
	"strings"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Codes of JetStream errors that the client library has no names for.
const (
	codeAccountResources      jetstream.ErrorCode = 10002
	codeInsufficientResources jetstream.ErrorCode = 10023
	codeStorageExceeded       jetstream.ErrorCode = 10047
	codeStoreFailed           jetstream.ErrorCode = 10077
	codeHeaderTooLarge        jetstream.ErrorCode = 10097
	codeStreamSealed          jetstream.ErrorCode = 10109
)

// Kind is what an error means for the message.
type Kind int

// The kinds of refusals.
const (
	// Passing: the server may take the message later as it is. Most errors are so: no
	// leader, no answer, a stream that is missing, sealed or offline.
	Passing Kind = iota
	// Full: there is no free space. Every message waits.
	Full
	// Stale: the last message of the subject is not the one that was expected.
	Stale
	// Oversized: the server may take the message with less data.
	Oversized
	// Never: the server cannot take the message, whatever is left out of its data.
	Never
	// Unknown: the error is none that a message is known to have. If the stream takes
	// other messages, it is this one that the server does not want.
	Unknown
)

// Of says what the error of a publish means for the message. It is of no use for nil.
func Of(err error) Kind {
	if errors.Is(err, client.ErrMaxPayload) {
		return Oversized
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return Passing // of the connection, or no answer
	}
	switch api.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return Stale
	case jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return Oversized
	case codeHeaderTooLarge:
		return Never
	case codeStoreFailed:
		if strings.Contains(api.Description, "too large") {
			return Oversized
		}
		return Full
	case codeAccountResources, codeInsufficientResources, codeStorageExceeded:
		return Full
	case codeStreamSealed:
		return Passing // until an operator has changed it
	}
	if api.Code >= http.StatusInternalServerError || api.Code == http.StatusTooManyRequests || api.Code == http.StatusNotFound {
		return Passing
	}
	return Unknown
}
