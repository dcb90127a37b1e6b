package jetstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
)

// Codes of JetStream errors that the client library has no names for.
const (
	codeAccountResources      js.ErrorCode = 10002
	codeInsufficientResources js.ErrorCode = 10023
	codeStorageExceeded       js.ErrorCode = 10047
	codeStoreFailed           js.ErrorCode = 10077
	codeHeaderTooLarge        js.ErrorCode = 10097
	codeStreamSealed          js.ErrorCode = 10109
)

// refusal is what the server's answer to an event means for it.
type refusal int

const (
	// passing: the server may take the event later as it is. Most errors are so: no
	// leader, no answer, a stream that is missing, sealed or offline.
	passing refusal = iota
	// full: there is no room. Every event waits.
	full
	// stale: the last message of the subject is not the one that was expected.
	stale
	// oversized: the server may take the event with less data.
	oversized
	// never: the server cannot take the event, whatever is left out of its data.
	never
	// unknown: the error is none that an event is known to have. If the stream takes other
	// events meanwhile, it is this event that the server does not want.
	unknown
)

// classify says what an error means for the event that was published.
func classify(err error) refusal {
	if errors.Is(err, nats.ErrMaxPayload) {
		return oversized
	}
	api, ok := errors.AsType[*js.APIError](err)
	if !ok {
		return passing // of the connection, or no answer
	}
	switch api.ErrorCode {
	case js.JSErrCodeStreamWrongLastSequence, js.JSErrCodeStreamWrongLastSequenceConstant:
		return stale
	case js.JSErrCodeStreamMessageExceedsMaximum:
		return oversized
	case codeHeaderTooLarge:
		return never
	case codeStoreFailed:
		if strings.Contains(api.Description, "too large") {
			return oversized
		}
		return full
	case codeAccountResources, codeInsufficientResources, codeStorageExceeded:
		return full
	case codeStreamSealed:
		return passing // until an operator has changed it
	}
	if api.Code >= http.StatusInternalServerError || api.Code == http.StatusTooManyRequests || api.Code == http.StatusNotFound {
		return passing
	}
	return unknown
}

// isFull reports whether the server refused for want of space.
func isFull(err error) bool { return classify(err) == full }

// isTooLarge reports whether a message was refused for its size.
func isTooLarge(err error) bool { return classify(err) == oversized }

// isStale reports whether the server refused the condition.
func isStale(err error) bool { return classify(err) == stale }

// unknownFor is how long the server must refuse an event with an unknown error before it
// counts as one that the stream never takes.
const unknownFor = 20 * time.Second

// isHopeless reports whether the stream will never take the event: after its error, what
// has become of it before, and what the stream takes besides.
func (j *Journal) isHopeless(f *flight) bool {
	switch classify(f.err) {
	case never:
		return true
	case oversized:
		return len(f.event.Data) == 0 // its headers alone are too large
	case unknown:
		end := j.tail.end()
		if f.unknownSince.IsZero() {
			f.unknownSince, f.unknownAt = time.Now(), end
		}
		return time.Since(f.unknownSince) >= j.unknownFor && end > f.unknownAt
	default:
		return false
	}
}

// giveUp hands an event over that the stream never takes, so that those behind it are not
// held up.
func (j *Journal) giveUp(ctx context.Context, f *flight) error {
	if j.config.Unstorable != nil {
		if err := j.config.Unstorable(ctx, &f.event, f.err); err != nil {
			return err
		}
	}
	j.unstorable.Add(1)
	j.logger.Error("event can never be stored in the journal: it is left out, and no sink gets it",
		slog.String("id", f.event.ID), slog.String("target", f.event.Target), slog.Int("bytes", f.event.Size()), slog.Any("err", f.err))
	f.landed = true
	return nil
}
