package eventlog

import (
	"context"
	"log/slog"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/lastindex"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
	"github.com/informd/informd/pkg/journal/jetstream/internal/tail"
)

// Log is the stream of events, and what the process knows of it.
type Log struct {
	*Lifetime
	Logger   *slog.Logger
	Requests *server.Requests
	Stream   *scan.Stream
	Messages *message.Codec
	Tail     *tail.Tail
	Subjects *lastindex.Index
}

// AskLast is lastMessage of the stream of events for one attempt of an append.
func (l *Log) AskLast(ctx context.Context, subject string) (scan.Message, error) {
	var m scan.Message
	err := l.Requests.Do(ctx, func(ctx context.Context) (err error) {
		m, err = l.Stream.LastMessage(ctx, subject)
		return err
	})
	return m, err
}

// Newest is the last event of an object, if it is one of the newest of the log. If it
// is not the last one, as somebody else writes, or the log has lost it, then nothing
// that follows from it is taken: it is not what is expected there.
func (l *Log) Newest(of *event.Event) (event.Event, bool) {
	at := l.Subjects.Get(l.Subjects.Hash(l.Messages.Subject(of)))
	if at.Seq == 0 {
		return event.Event{}, false
	}
	e, ok := l.Tail.At(at.Seq)
	return e, ok && at.ID == l.Subjects.Hash(e.ID) && (of.Op.Control() || e.Key() == of.Key())
}
