package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/streams"
)

// Queues are the dead-letter queues of the journal: subjects of one stream, which the first
// dead letter creates. Methods may be called concurrently.
type Queues struct {
	client js.JetStream
	// config is the stream to create.
	config js.StreamConfig
	// usable returns why no call can begin now.
	usable func(ctx context.Context) error
	// fits reports whether the server accepts the size of a message.
	fits  func(*nats.Msg) bool
	quota quota
}

// Options describe the queues. All but Replicas are required.
type Options struct {
	// Stream is the name of the stream of events. Dead letters are in <Stream>_DEADLETTERS.
	Stream   string
	Replicas int
	// Limits returns the current limits.
	Limits func() Limits
	// Usable returns why a dead letter cannot be stored now.
	Usable func(ctx context.Context) error
	// Fits reports whether the server accepts the size of a message.
	Fits   func(*nats.Msg) bool
	Logger *slog.Logger
}

// New returns the queues. It contacts no server.
func New(client js.JetStream, o Options) *Queues {
	name := o.Stream + "_DEADLETTERS"
	return &Queues{
		client: client, config: streams.Define(name, "informd's journal: dead letters", name, o.Replicas),
		usable: o.Usable, fits: o.Fits, quota: quota{limits: o.Limits, logger: o.Logger},
	}
}

// Create creates the stream before its first dead letter.
func (q *Queues) Create(ctx context.Context) error {
	_, err := streams.Find(ctx, q.client, q.config)
	return err
}

// Queue is the dead-letter queue of one sink. Dead letters stay until they are dropped.
// Methods may be called concurrently.
type Queue struct {
	queues  *Queues
	subject string

	mu     sync.Mutex
	stream js.Stream // nil until it was found
}

// Of returns the queue of that name.
func (q *Queues) Of(name string) *Queue {
	return &Queue{queues: q, subject: q.config.Name + "." + event.EscapeToken(name)}
}

// Counts returns the number of dead letters in each queue that is not empty, by the
// name of the queue. It includes queues that no sink of the config has any more.
func (q *Queues) Counts(ctx context.Context) (map[string]uint64, error) {
	name := q.config.Name
	stream, err := q.client.Stream(ctx, name)
	if errors.Is(err, js.ErrStreamNotFound) {
		return nil, nil //nolint:nilnil // the first dead letter makes the stream
	}
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	info, err := stream.Info(ctx, js.WithSubjectFilter(name+".>"))
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	counts := make(map[string]uint64)
	for subject, n := range info.State.Subjects {
		if sink, err := event.UnescapeToken(strings.TrimPrefix(subject, name+".")); err == nil { // else it is of another client
			counts[sink] = n
		}
	}
	return counts, nil
}

// Place is the location of the queue, for an operator.
func (q *Queue) Place() string { return "subject " + q.subject }

// Put stores a dead letter and returns when it is durable. After an error the queue may have
// it or not. The error is [journal.ErrTooLarge] if no message can carry it, or if there is only
// space for a smaller one.
func (q *Queue) Put(ctx context.Context, letter []byte) error {
	if err := q.queues.usable(ctx); err != nil {
		return err
	}
	stream, err := q.find(ctx, true)
	if err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	m, err := q.message(letter)
	if err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	release, err := q.queues.quota.reserve(ctx, stream, int64(m.Size()))
	if err == nil {
		defer release()
		_, err = q.queues.client.PublishMsg(ctx, m)
	}
	if err != nil {
		if errors.Is(err, js.ErrNoStreamResponse) || errors.Is(err, js.ErrStreamNotFound) {
			q.forget() // the stream was deleted
		}
		return fmt.Errorf("write dead letter to %s: %w", q.subject, err)
	}
	return nil
}

// message returns the message of a letter. Larger letters are compressed, so that more of them
// have space.
func (q *Queue) message(letter []byte) (*nats.Msg, error) {
	m := nats.NewMsg(q.subject)
	m.Data = letter
	if m.Size() <= packedLetter && q.queues.fits(m) {
		return m, nil
	}
	packed, err := message.Compress(letter)
	if err != nil {
		return nil, err
	}
	m.Data = packed
	m.Header.Set(message.HeaderEncoding, message.EncodingGzip)
	if !q.queues.fits(m) {
		return nil, fmt.Errorf("%d bytes: %w", m.Size(), journal.ErrTooLarge)
	}
	return m, nil
}

// find returns the stream, nil if there is none and none is to be made.
func (q *Queue) find(ctx context.Context, create bool) (js.Stream, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stream != nil {
		return q.stream, nil
	}
	var err error
	if create {
		q.stream, err = streams.Find(ctx, q.queues.client, q.queues.config)
		return q.stream, err
	}
	q.stream, err = q.queues.client.Stream(ctx, q.queues.config.Name)
	if errors.Is(err, js.ErrStreamNotFound) {
		return nil, nil //nolint:nilnil // no letters is no error
	}
	return q.stream, err
}

// forget has the next call look for the stream.
func (q *Queue) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stream = nil
}

// Each calls take with every dead letter, oldest first, until take returns an error,
// which it returns.
func (q *Queue) Each(ctx context.Context, take func(number uint64, letter []byte) error) error {
	stream, err := q.find(ctx, false)
	if err != nil || stream == nil {
		return err
	}
	for next := uint64(1); ; {
		m, err := stream.GetMsg(ctx, next, js.WithGetMsgSubject(q.subject))
		if errors.Is(err, js.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		letter := m.Data
		if m.Header.Get(message.HeaderEncoding) == message.EncodingGzip {
			if letter, err = message.Decompress(letter); err != nil {
				return fmt.Errorf("read dead letter %d: %w", m.Sequence, err)
			}
		}
		if err := take(m.Sequence, letter); err != nil {
			return err
		}
		next = m.Sequence + 1
	}
}

// Drop removes dead letters, and ignores missing ones.
func (q *Queue) Drop(ctx context.Context, numbers ...uint64) error {
	stream, err := q.find(ctx, false)
	if err != nil || stream == nil {
		return err
	}
	for _, number := range numbers {
		err := stream.DeleteMsg(ctx, number)
		var api *js.APIError
		if errors.As(err, &api) && api.ErrorCode == codeNoMessage {
			continue
		}
		if err != nil && !errors.Is(err, js.ErrMsgNotFound) && !errors.Is(err, js.ErrMsgDeleteUnsuccessful) {
			return fmt.Errorf("drop dead letter %d: %w", number, err)
		}
	}
	return nil
}

// codeNoMessage is the server's code for a sequence that is not in the stream.
const codeNoMessage js.ErrorCode = 10043
