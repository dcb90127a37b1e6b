package deliver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// maxRaw is how much of an unreadable frame a dead letter keeps.
const maxRaw = 64 << 10

// Box stores the dead letters of one sink, each one JSON object. Methods may
// be called concurrently.
type Box interface {
	// Put keeps a letter and returns when it is durable. After an error it may or
	// may not be there.
	Put(ctx context.Context, letter []byte) error
	// Each calls take with every letter, oldest first, until take returns an
	// error, which it returns. The number stands for the letter until it is
	// dropped; the bytes are the caller's.
	Each(ctx context.Context, take func(number uint64, letter []byte) error) error
	// Drop removes dead letters and ignores unknown numbers.
	Drop(ctx context.Context, numbers ...uint64) error
	// Place names the storage of the dead letters, for an operator.
	Place() string
}

// DeadLetters are the events that cannot be delivered to one sink. Methods may be
// called concurrently.
type DeadLetters struct {
	Box
	name string
}

// NewDeadLetters keeps the dead letters of the sink called name in box.
func NewDeadLetters(name string, box Box) *DeadLetters { return &DeadLetters{box, name} }

// Letter is an event that cannot be delivered.
type Letter struct {
	Event *event.Event
	// Reason is the sink's error.
	Reason string
	// Attempts is how often the event was tried.
	Attempts int
	// Time is when it was refused for good.
	Time time.Time
}

// SourceLetter is something the API server sent that is no readable object.
type SourceLetter struct {
	// Target and Key name the object, as far as they are known.
	Target, Key string
	// Reason says what is wrong with it.
	Reason string
	// Size is its length in bytes.
	Size int
	// Raw is the thing itself, of which the first 64 KiB are kept. It has not
	// been redacted: leave it nil if it may hold a Secret.
	Raw []byte
}

// maxKey bounds the bytes of a name in a dead letter: the cluster chooses names.
const maxKey = 1 << 10

// ObjectKey names an object in a dead letter, with at most about 1 KiB.
func ObjectKey(namespace, name, uid string, revision uint64) string {
	key := fmt.Sprintf("%s/%s uid=%s resourceversion=%d", namespace, name, uid, revision)
	if len(key) <= maxKey {
		return key
	}
	return fmt.Sprintf("%s… (name of %d bytes) resourceversion=%d", strings.ToValidUTF8(key[:maxKey], ""), len(name), revision)
}

// letterHead is what every letter begins with.
type letterHead struct {
	Time   string `json:"time"`
	Sink   string `json:"sink"`
	Reason string `json:"reason"`
}

func (d *DeadLetters) head(at time.Time, reason string) letterHead {
	return letterHead{Time: form.Time(at), Sink: d.name, Reason: display.Reason(reason)}
}

// Write adds a letter and returns when it is durable. After an error the
// letter may or may not be there. Where the whole event is too large for the box,
// the letter has it without its data.
func (d *DeadLetters) Write(ctx context.Context, l Letter) error {
	err := d.write(ctx, l)
	if errors.Is(err, journal.ErrTooLarge) {
		bare := *l.Event
		bare.Data = nil
		l.Event = &bare
		l.Reason += " (without the event's data, for which the dead-letter queue has no space)"
		err = d.write(ctx, l)
	}
	return err
}

func (d *DeadLetters) write(ctx context.Context, l Letter) error {
	line, err := json.Marshal(struct {
		letterHead
		Attempts int `json:"attempts"`
	}{d.head(l.Time, l.Reason), l.Attempts})
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	// The event is JSON already, and must come out as it is.
	line = append(line[:len(line)-1], `,"event":`...)
	line = append(l.Event.AppendJSON(line), '}')
	return d.Put(ctx, line)
}

// WriteSource adds what the API server sent and informd cannot read, and returns
// when it is durable. If the thing itself is too large for the box, the letter goes without it.
func (d *DeadLetters) WriteSource(ctx context.Context, l SourceLetter) error {
	err := d.writeSource(ctx, l)
	if errors.Is(err, journal.ErrTooLarge) && l.Raw != nil {
		l.Raw = nil
		err = d.writeSource(ctx, l)
	}
	return err
}

func (d *DeadLetters) writeSource(ctx context.Context, l SourceLetter) error {
	line, err := json.Marshal(struct {
		letterHead
		Target string `json:"target"`
		Key    string `json:"key"`
		Size   int    `json:"size"`
		Raw    []byte `json:"raw,omitempty"`
	}{d.head(time.Now(), l.Reason), l.Target, l.Key, l.Size, l.Raw[:min(len(l.Raw), maxRaw)]})
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	return d.Put(ctx, line)
}

// Kept is a letter as it is kept.
type Kept struct {
	// Number stands for the letter until it is dropped.
	Number uint64
	// Time is when the event was refused.
	Time time.Time
	// JSON is the whole letter.
	JSON []byte
	// Event is what could not be delivered, nil if it came from the API server, or if the
	// letter is damaged.
	Event *event.Event
}

// Each calls take with every letter, oldest first, until take returns an error,
// which it returns.
func (d *DeadLetters) Each(ctx context.Context, take func(Kept) error) error {
	return d.Box.Each(ctx, func(number uint64, text []byte) error {
		k := Kept{Number: number, JSON: text}
		var letter struct {
			Time  time.Time
			Event json.RawMessage
		}
		if err := json.Unmarshal(text, &letter); err == nil && letter.Event != nil {
			k.Time = letter.Time
			if e, err := event.ParseJSON(letter.Event); err == nil {
				k.Event = &e
			}
		}
		return take(k)
	})
}
