package publish

import (
	"context"
	"log/slog"
	"time"

	"github.com/informd/informd/pkg/natsconn/refusal"
)

// IsFull reports whether the server refused for want of space.
func IsFull(err error) bool { return refusal.Of(err) == refusal.Full }

// isTooLarge reports whether a message was refused for its size.
func isTooLarge(err error) bool { return refusal.Of(err) == refusal.Oversized }

// isStale reports whether the server refused the condition.
func isStale(err error) bool { return refusal.Of(err) == refusal.Stale }

// unknownFor is how long the server must refuse an event with an unknown error before it
// counts as one that the stream never takes.
const unknownFor = 20 * time.Second

// isHopeless reports whether the stream will never take the event: after its error, what
// has become of it before, and what the stream takes besides.
func (p *Publisher) isHopeless(f *Flight) bool {
	switch refusal.Of(f.err) {
	case refusal.Never:
		return true
	case refusal.Oversized:
		return len(f.event.Data) == 0 // its headers alone are too large
	case refusal.Unknown:
		end := p.Tail.End()
		if f.unknownSince.IsZero() {
			f.unknownSince, f.unknownAt = time.Now(), end
		}
		return time.Since(f.unknownSince) >= p.unknownFor && end > f.unknownAt
	default:
		return false
	}
}

// giveUp hands an event over that the stream never takes, so that those behind it are not
// held up.
func (p *Publisher) giveUp(ctx context.Context, f *Flight) error {
	if p.Unstorable != nil {
		if err := p.Unstorable(ctx, &f.event, f.err); err != nil {
			return err
		}
	}
	p.Refused.Add(1)
	p.Logger.Error("event refused by the journal server; no sink gets it",
		slog.String("id", f.event.ID), slog.String("target", f.event.Target), slog.Int("bytes", f.event.Size()), slog.Any("err", f.err),
		slog.String("next", "see the dead letters of the source"))
	f.landed = true
	return nil
}
