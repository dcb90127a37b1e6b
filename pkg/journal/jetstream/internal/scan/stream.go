package scan

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// Stream is a stream to read. Its methods may be called concurrently.
type Stream struct {
	js.Stream
	conn     *nats.Conn
	requests *server.Requests
	// own: the server is informd's own, and the stream allows direct gets.
	own bool
	// settled returns the time at which every replica that keeps up has the messages that
	// are acknowledged now.
	settled func() time.Time
}

// NewStream returns a stream to read. Settled returns the time at which every replica that
// keeps up has the messages that are acknowledged now; it is not called for one replica. Own
// says that the server is informd's own.
func NewStream(stream js.Stream, conn *nats.Conn, requests *server.Requests, own bool, settled func() time.Time) *Stream {
	return &Stream{Stream: stream, conn: conn, requests: requests, own: own, settled: settled}
}

// Name returns the name of the stream.
func (s *Stream) Name() string { return s.CachedInfo().Config.Name }

// Replicated reports whether the stream has more than one replica.
func (s *Stream) Replicated() bool { return s.CachedInfo().Config.Replicas > 1 }

// LastSequence returns the sequence of the newest message.
func (s *Stream) LastSequence(ctx context.Context) (uint64, error) {
	info, err := s.requests.Info(ctx, s)
	if err != nil {
		return 0, fmt.Errorf("stream %s: %w", s.Name(), err)
	}
	return info.State.LastSeq, nil
}
