package jetstream

import (
	"context"
	"log/slog"

	js "github.com/nats-io/nats.go/jetstream"
)

// holding is what the stream of events held and could hold when last looked at.
type holding struct {
	events, bytes uint64
	capacity      uint64 // in bytes; 0: not bounded
}

func holdingOf(info *js.StreamInfo) holding {
	return holding{events: info.State.Msgs, bytes: info.State.Bytes, capacity: uint64(max(info.Config.MaxBytes, 0))}
}

// resize gives the stream of events the room that there is now, and returns what it
// then is. What it holds already it keeps: then it is full.
func (j *Journal) resize(ctx context.Context, info *js.StreamInfo) *js.StreamInfo {
	if !j.config.Own || j.config.Room == nil {
		return info
	}
	changed := info.Config
	changed.MaxBytes = max(j.config.Room(), int64(info.State.Bytes), 1)
	if changed.MaxBytes == info.Config.MaxBytes {
		return info
	}
	stream, err := j.client.UpdateStream(ctx, changed)
	switch {
	case err == nil:
		j.resizing.Over()
		j.logger.Info("journal stream limit changed with free disk space", slog.String("stream", j.config.Stream),
			slog.Int64("max_bytes", changed.MaxBytes), slog.Int64("before_bytes", info.Config.MaxBytes))
		return stream.CachedInfo()
	case !isFull(err): // else the server has not got the room yet
		j.resizing.Begin(err)
	}
	return info
}
