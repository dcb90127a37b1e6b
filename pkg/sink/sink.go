// Package sink is the contract between informd and the destinations of events.
//
// A sink type is one package with a [Config] and a [Sink], and one [Driver] in the
// program's list (package drivers). There is no registration by init and no global
// registry. Package sinktest is the conformance suite that every sink passes.
//
// A sink writes batches and returns how many events the destination holds. Package deliver
// of the program calls it, and has the matches, batches, retries, dead letters and cursors.
package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/informd/informd/pkg/event"
)

// Sink is one open destination.
//
// The caller never calls Write concurrently with itself or with Close. If the sink has
// several lanes ([Driver.Lanes], [Laned]), Write may run concurrently with itself, for batches that
// have no object in common.
type Sink interface {
	// Write delivers batch in order and returns n, the number of leading events that the
	// destination holds. It blocks until then, until ctx ends or until an event cannot be
	// delivered. informd passes at most 256 events, and more than 1 MiB ([event.Event.Size])
	// only as a single event. If n < len(batch), the error concerns batch[n]:
	//
	//   - If [IsPermanent] holds, batch[n] can never be delivered.
	//   - If [IsUnknown] holds, the caller retries a few times only.
	//   - Otherwise the caller retries with the same events, after [RetryAfter] if the error
	//     has one. If ctx has ended, the error is that of ctx, or a timeout of the network.
	//
	// Events beyond n may have arrived, too; their ids identify the second delivery. Write
	// must not change the batch. After it has returned, also with an error, it must not keep
	// the batch or its Data, which are overwritten. It may keep strings.
	Write(ctx context.Context, batch []event.Event) (n int, err error)
	// Close flushes the sink and frees its resources. The caller calls it once, also after a
	// failed Write. It gives up when ctx ends.
	Close(ctx context.Context) error
}

// Config is the options of a sink type: the keys of a sink's entry in the config file
// beside those of every sink (name, type, match, start). Its struct fields have yaml tags
// in camelCase, an enum tag ("a,b") if the values are a fixed list, and a help tag: the text of
// `informd explain` and of the schema. (Of informd's own types, these show the comments.) informd
// decodes the options strictly over the values of [Driver.New].
type Config interface {
	// Validate returns every problem that needs no contact to the destination, in no
	// particular order.
	Validate() []Problem
	// Open opens the sink. It does not wait for a reachable destination. An error means
	// that the sink cannot work now, for example an unwritable file. The caller retries with
	// backoff, as after a failed write.
	Open(ctx context.Context, env Env) (Sink, error)
}

// Exclusive is a [Config] whose sinks need exclusive use of something, such as a file. Two
// sinks with the same name of it are an error in the config, also with different types.
type Exclusive interface {
	Config
	// Exclusive returns the key of the option, and the name in its canonical spelling: a
	// clean absolute path for a file. A sink may not name files of informd either. An empty
	// name is none. informd calls it only if Validate has no problem with the key.
	Exclusive() (key, name string)
}

// Destined is a [Config] that says what is known of the destination before the sink is open.
// The cursor of a sink belongs to its name, so a changed config continues at the old position.
type Destined interface {
	Config
	// Destination returns the name of the destination, such as a path or an address, which may
	// have secrets: informd only compares it. Identified says that the sinks report the
	// identity of the destination with [Env.Found].
	Destination() (name string, identified bool)
}

// Exposer is a [Config] whose sinks may send events over the network without TLS.
type Exposer interface {
	Config
	// Exposed returns the key of the option, and a host of another machine to which events
	// go without encryption. Both are empty if there is none, or if the user allows it.
	// informd calls it only if Validate has no problem with the key.
	Exposed() (key, host string)
}

// Laned is a [Config] that decides how many lanes its sink has, in place of [Driver.Lanes].
type Laned interface {
	Config
	// Lanes returns the number of concurrent writes, at least 1.
	Lanes() int
}

// Problem is one error in a sink's options.
type Problem struct {
	// Key is the path of the key below the sink's entry, as in "url" or "headers.X-A". It is
	// empty for the entry as a whole.
	Key string
	// Message says what is wrong and what to do, lower case, without the key.
	Message string
}

// Problems are the errors in a sink's options.
type Problems []Problem

// Add adds an error of a key.
func (p *Problems) Add(key, format string, args ...any) {
	*p = append(*p, Problem{Key: key, Message: fmt.Sprintf(format, args...)})
}

// Driver is one sink type.
type Driver struct {
	// Type is the value of `type:` in the config.
	Type string
	// New returns a pointer to the options with their default values.
	New func() Config
	// Lanes is the number of concurrent writes, at least 1. Events of one object are always in
	// the same lane. More than 1 suits destinations that are slow per request and have no
	// order across objects.
	Lanes int
	// Remote says that destinations of this type may also receive events of other clusters.
	// The config must then have a cluster name.
	Remote bool
}

// Env is the environment that the program gives to a sink.
type Env struct {
	// Name is the sink's name in the config.
	Name string
	// Cluster is the configured cluster name.
	Cluster string
	// Logger is never nil and has the name of the sink.
	Logger *slog.Logger
	// Stdout is the program's standard output.
	Stdout io.Writer
	// Found takes the identity of the destination. The sink calls it before its first Write
	// returns, and when it finds another identity. A changed identity means that the destination
	// lacks earlier events: informd then repeats every object. So does an empty identity and
	// then the same one again, of a destination that has lost events. It does not block. It is
	// nil unless the options are [Destined] and identified.
	Found func(identity string)
}

// marked is an error with a mark that is not in its text.
type marked[T any] struct {
	error

	mark T
}

// Unwrap returns the error without the mark.
func (m *marked[T]) Unwrap() error { return m.error }

// mark adds a mark to err. It returns nil for nil.
func mark[T any](err error, with T) error {
	if err == nil {
		return nil
	}
	return &marked[T]{err, with}
}

// markOf returns the first mark of a type in err.
func markOf[T any](err error) (found T, ok bool) {
	if m, ok := errors.AsType[*marked[T]](err); ok {
		return m.mark, true
	}
	return found, false
}

type (
	permanent struct{}
	unknown   struct{}
	answered  string
)

// Permanent marks err as one that no retry can resolve: its event becomes a dead letter.
// Permanent(nil) is nil.
func Permanent(err error) error { return mark(err, permanent{}) }

// IsPermanent reports whether err or an error it wraps was marked by [Permanent].
func IsPermanent(err error) bool {
	_, ok := markOf[permanent](err)
	return ok
}

// Unknown marks err as a refusal with an unknown reason. It may concern the destination, or
// this event alone, which then must not block all others. After some retries the event
// becomes a dead letter. Unknown(nil) is nil.
func Unknown(err error) error { return mark(err, unknown{}) }

// IsUnknown reports whether err or an error it wraps was marked by [Unknown].
func IsUnknown(err error) bool {
	_, ok := markOf[unknown](err)
	return ok
}

// WithAnswer adds the answer of the destination to err, for the log only: the error's text
// does not include it. WithAnswer(nil, answer) is nil, WithAnswer(err, "") is err.
func WithAnswer(err error, answer string) error {
	if answer == "" {
		return err
	}
	return mark(err, answered(answer))
}

// Answer returns the answer that [WithAnswer] added to err, or "".
func Answer(err error) string {
	answer, _ := markOf[answered](err)
	return string(answer)
}

// WithRetryAfter adds to err the pause that the destination asked for.
// WithRetryAfter(nil, d) is nil.
func WithRetryAfter(err error, after time.Duration) error { return mark(err, after) }

// RetryAfter returns the pause that [WithRetryAfter] added to err, or 0.
func RetryAfter(err error) time.Duration {
	after, _ := markOf[time.Duration](err)
	return after
}

// WithContext adds the error of ctx to err if ctx has ended, as [Sink] asks of Write: a connection that
// is closed under a blocked call gives other reasons. A permanent error stays as it is, because the
// event can never be delivered. WithContext(ctx, nil) is nil.
func WithContext(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) || IsPermanent(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}
