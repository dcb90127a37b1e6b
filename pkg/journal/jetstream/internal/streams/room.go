package streams

import (
	"context"
	"log/slog"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
	"github.com/informd/informd/pkg/natsconn/refusal"
)

// Resizer gives a stream of informd's own server the current free space.
type Resizer struct {
	Client js.JetStream
	// Room returns the limit, in bytes.
	Room   func() int64
	Outage *server.Outage
	Logger *slog.Logger
}

// Resize returns the stream as it is afterwards. The limit is never below the stored bytes: then the
// stream is full.
func (r *Resizer) Resize(ctx context.Context, info *js.StreamInfo) *js.StreamInfo {
	changed := info.Config
	changed.MaxBytes = max(r.Room(), int64(info.State.Bytes), 1)
	if changed.MaxBytes == info.Config.MaxBytes {
		return info
	}
	stream, err := r.Client.UpdateStream(ctx, changed)
	switch {
	case err == nil:
		r.Outage.Over()
		r.Logger.Info("journal stream limit changed with free disk space", slog.String("stream", changed.Name),
			slog.Int64("max_bytes", changed.MaxBytes), slog.Int64("before_bytes", info.Config.MaxBytes))
		return stream.CachedInfo()
	case refusal.Of(err) != refusal.Full: // else the server does not have the space yet
		r.Outage.Begin(err)
	}
	return info
}
