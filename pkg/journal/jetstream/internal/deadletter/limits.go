package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal"
)

const (
	// smallLetter is more than a letter without the data of its event: that has the names twice, of
	// 8 KiB at most. Their JSON has up to 96 KiB, but compressed up to 21 KiB.
	smallLetter = 32 << 10
	// packedLetter is the size above which a letter is compressed.
	packedLetter = 4 << 10
	// mostData and leastData bound the share of larger letters.
	mostData  = 512 << 20
	leastData = 32 << 20
)

// Limits are how many bytes the dead letters of all queues may take together; 0 is no limit.
type Limits struct {
	// Data is the limit for dead letters above 32 KiB.
	Data int64
	// All is the limit for smaller ones, which have the rest for themselves: those that
	// Data refuses come again without data.
	All int64
}

// LimitsWithin returns the limits beside a stream of maxBytes. OtherBytes is the capacity that the
// dead letters share with all other streams; nil on a server of the user, which has its own limits:
// there, only large dead letters have one, if maxBytes is not 0.
func LimitsWithin(maxBytes int64, otherBytes func() int64) func() Limits {
	if otherBytes != nil {
		return func() Limits {
			others := otherBytes()
			return Limits{Data: min(others/2, mostData), All: others / 4 * 3}
		}
	}
	var fixed Limits
	if maxBytes > 0 {
		fixed.Data = min(max(maxBytes/16, leastData), mostData)
	}
	return func() Limits { return fixed }
}

// quota holds the letters to their limits. It compares the bytes of the stream, because the
// stream's own limit is one for all messages, and a stream of an earlier version has none.
type quota struct {
	limits func() Limits
	logger *slog.Logger

	// flying are the bytes on their way to the stream.
	flying atomic.Int64

	mu sync.Mutex
	// exceeded is from the first letter without data until half of the share is free again.
	exceeded bool
}

// reserve takes the bytes of a letter before it is stored. It returns [journal.ErrTooLarge] if
// a smaller letter may fit. Release gives them back, after the stream counts them.
func (q *quota) reserve(ctx context.Context, stream js.Stream, size int64) (release func(), err error) {
	limits, small := q.limits(), size <= smallLetter
	if limits.Data <= 0 || small && limits.All <= 0 {
		return func() {}, nil
	}
	// First, so that of two letters at a time one sees the other, here or in the stream.
	flying := q.flying.Add(size)
	release = func() { q.flying.Add(-size) }
	info, err := stream.Info(ctx)
	if err == nil {
		err = q.check(info, limits, flying, small)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (q *quota) check(info *js.StreamInfo, limits Limits, flying int64, small bool) error {
	stored := int64(info.State.Bytes)
	switch {
	case small && stored+flying > limits.All:
		return fmt.Errorf("dead letters take %d of %d bytes: %w; redeliver or drop some (informd deadletters)", stored, limits.All, errFull)
	case small:
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if stored+flying <= limits.Data {
		q.exceeded = q.exceeded && stored > limits.Data/2
		return nil
	}
	if !q.exceeded {
		q.exceeded = true
		q.logger.Warn("dead letters near their limit; large ones stored without data", slog.String("stream", info.Config.Name),
			slog.Int64("bytes", stored), slog.Int64("max_bytes", limits.Data), slog.String("next", "redeliver or drop them (informd deadletters)"))
	}
	return fmt.Errorf("dead letters take %d of %d bytes: %w", stored, limits.Data, journal.ErrTooLarge)
}

// errFull says that not even small letters fit.
var errFull = errors.New("dead letters are full")
