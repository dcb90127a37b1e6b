package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
)

// Letters is the dead-letter queue of one sink: a subject of the stream
// <Stream>_DEADLETTERS, which is created with the first dead letter. Dead letters stay until
// they are dropped. Methods may be called concurrently.
type Letters struct {
	journal *Journal
	subject string

	mu     sync.Mutex
	stream js.Stream // nil until it was found
}

// Letters returns the dead-letter queue of that name.
func (j *Journal) Letters(name string) *Letters {
	return &Letters{journal: j, subject: j.config.letterStream() + "." + event.EscapeToken(name)}
}

// LetterCounts returns the number of dead letters in each queue that is not empty, by the
// name of the queue. It includes queues that no sink of the config has any more.
func (j *Journal) LetterCounts(ctx context.Context) (map[string]uint64, error) {
	name := j.config.letterStream()
	stream, err := j.client.Stream(ctx, name)
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

func (c *Config) letterStream() string { return c.Stream + "_DEADLETTERS" }

// letterConfig is what the stream of letters is created as.
func (c *Config) letterConfig() js.StreamConfig {
	wanted := c.stateConfig()
	wanted.Name = c.letterStream()
	wanted.Description = "informd's journal: dead letters"
	wanted.Subjects = []string{wanted.Name + ".>"}
	wanted.MaxMsgsPerSubject = -1
	return wanted
}

// Place is the location of the queue, for an operator.
func (l *Letters) Place() string { return "subject " + l.subject }

// Put stores a dead letter and returns when it is durable. After an error the queue may have
// it or not. The error is [journal.ErrTooLarge] if no message can carry it.
func (l *Letters) Put(ctx context.Context, letter []byte) error {
	if err := l.journal.usable(ctx); err != nil {
		return err
	}
	if _, err := l.find(ctx, true); err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	m := nats.NewMsg(l.subject)
	m.Data = letter
	if !l.journal.messages.Fits(m) {
		packed, err := message.Compress(letter)
		if err != nil {
			return fmt.Errorf("write dead letter: %w", err)
		}
		m.Data = packed
		m.Header.Set(message.HeaderEncoding, message.EncodingGzip)
		if !l.journal.messages.Fits(m) {
			return fmt.Errorf("write dead letter: %w", journal.ErrTooLarge)
		}
	}
	if _, err := l.journal.client.PublishMsg(ctx, m); err != nil {
		if errors.Is(err, js.ErrNoStreamResponse) {
			l.forget() // the stream was deleted
		}
		return fmt.Errorf("write dead letter to %s: %w", l.subject, err)
	}
	return nil
}

// find returns the stream, nil if there is none and none is to be made.
func (l *Letters) find(ctx context.Context, create bool) (js.Stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != nil {
		return l.stream, nil
	}
	j := l.journal
	var err error
	if create {
		l.stream, err = findStream(ctx, j.client, j.config.letterConfig())
		return l.stream, err
	}
	l.stream, err = j.client.Stream(ctx, j.config.letterStream())
	if errors.Is(err, js.ErrStreamNotFound) {
		return nil, nil //nolint:nilnil // no letters is no error
	}
	return l.stream, err
}

// forget has the next call look for the stream.
func (l *Letters) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream = nil
}

// Each calls take with every dead letter, oldest first, until take returns an error,
// which it returns.
func (l *Letters) Each(ctx context.Context, take func(number uint64, letter []byte) error) error {
	stream, err := l.find(ctx, false)
	if err != nil || stream == nil {
		return err
	}
	for next := uint64(1); ; {
		m, err := stream.GetMsg(ctx, next, js.WithGetMsgSubject(l.subject))
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
func (l *Letters) Drop(ctx context.Context, numbers ...uint64) error {
	stream, err := l.find(ctx, false)
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
