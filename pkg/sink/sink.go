// Package sink is the contract between informd and the places it delivers to.
//
// A sink type is one package with a [Config] and a [Sink], and one [Driver] in
// the list that the program is built with (package drivers). There is no
// registration by init and no global registry. Package sinktest is the
// conformance suite that every sink passes.
//
// The framework that drives sinks (routes, batches, retries, dead letters,
// cursors) is not here: a sink only writes, and says how far it came.
package sink

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/informd/informd/pkg/event"
)

// Sink is one open destination.
//
// The caller never calls Write concurrently with itself or with Close, unless
// the driver asks for lanes ([Driver.Lanes]): then Write may run concurrently
// with itself, for batches that have no object in common.
type Sink interface {
	// Write delivers batch in order and returns how many leading events the
	// destination holds, n. It blocks until then, until ctx ends or until an
	// event cannot be delivered. n < len(batch) comes with an error about
	// batch[n]; an error for which [IsPermanent] holds means that batch[n] can
	// never be delivered; any other is worth another try with the same events,
	// after [RetryAfter] if the error carries one, but only a few if [IsUnknown] holds. Events beyond n may have
	// arrived, too; their ids make a second delivery recognisable. Write must
	// not change the batch nor keep it, or what it points to, after it returned, also
	// with an error: Data is then written over. Strings may be kept.
	Write(ctx context.Context, batch []event.Event) (n int, err error)
	// Close flushes and frees what the sink holds. It is called once, also
	// after a failed Write, and gives up when ctx ends.
	Close(ctx context.Context) error
}

// Config is a sink type's own options: what stands in a sink's entry of the
// config file beside the keys that every sink has (name, type, only, start).
// Its struct fields carry yaml tags in camelCase, and an enum tag ("a,b") if these
// are all the values there are; it is decoded strictly over the values that
// [Driver.New] returns. Their comments are what an editor shows.
type Config interface {
	// Validate returns every problem that can be seen without contact to the
	// destination, in no particular order.
	Validate() []Problem
	// Open makes the sink. It does not wait for the destination to be
	// reachable; an error means that it cannot work now (an unwritable file,
	// say) and is retried with backoff, like a failed write.
	Open(ctx context.Context, env Env) (Sink, error)
}

// Exclusive is a [Config] whose sinks need something to themselves. Two sinks
// that name the same are a mistake in the config, whatever their types are.
type Exclusive interface {
	Config
	// Exclusive returns the key of the option that names what this sink shares
	// with none, and what that is in its one spelling: a file as a clean absolute
	// path. Informd keeps files of its own, which a sink may not name either. An
	// empty name is nothing. It is asked only if Validate has no complaint about
	// the key.
	Exclusive() (key, name string)
}

// Exposer is a [Config] whose sinks may send events over the network in clear.
type Exposer interface {
	Config
	// Exposed returns the key of the option, and a host of another machine to which events
	// go without encryption. Both are empty if there is none, or if the user allows it. It
	// is asked only if Validate has no complaint about the key.
	Exposed() (key, host string)
}

// Problem is one mistake in a sink's options.
type Problem struct {
	// Key is the path of the key below the sink's entry, "url" or "headers.X-A";
	// empty for the entry as a whole.
	Key string
	// Message says what is wrong and what to do, lower case, without the key.
	Message string
}

// Driver is one sink type.
type Driver struct {
	// Type is the value of `type:` in the config.
	Type string
	// New returns a pointer to the options with their default values.
	New func() Config
	// Lanes is how many batches may be written at a time, at least 1. Events of
	// one object are always in the same lane. More than 1 suits destinations
	// that are slow per request and have no order over all.
	Lanes int
	// Remote says that the events of other clusters may arrive where sinks of this
	// type send theirs: the config then has to name the cluster.
	Remote bool
}

// Env is what a sink gets from the program it runs in.
type Env struct {
	// Name is the sink's name in the config.
	Name string
	// Cluster is the configured cluster name.
	Cluster string
	// Logger is never nil; it already names the sink.
	Logger *slog.Logger
	// Stdout is the program's standard output.
	Stdout io.Writer
	// Found takes the identity of the destination whenever the sink has found it. Another
	// identity than before says that the destination has lost what it held: informd then
	// repeats every object. It does not block. Nil: no caller asks; sinks whose destinations
	// have no identity do not call it.
	Found func(identity string)
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks err as one that another try cannot mend: the event it is
// about goes to the dead letters. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err or an error it wraps was marked by [Permanent].
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

type unknownError struct{ err error }

func (e *unknownError) Error() string { return e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

// Unknown marks err as a refusal whose reason the sink does not know: it may be about the
// destination, or about this event alone, which then must not hold up all others for ever.
// After some tries the event goes to the dead letters. Unknown(nil) is nil.
func Unknown(err error) error {
	if err == nil {
		return nil
	}
	return &unknownError{err}
}

// IsUnknown reports whether err or an error it wraps was marked by [Unknown].
func IsUnknown(err error) bool {
	_, ok := errors.AsType[*unknownError](err)
	return ok
}

type retryAfterError struct {
	err   error
	after time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

type answerError struct {
	err    error
	answer string
}

func (e *answerError) Error() string { return e.err.Error() }
func (e *answerError) Unwrap() error { return e.err }

// WithAnswer adds to err what the destination answered, for the log only: the text is no
// part of the error's. WithAnswer(nil, answer) is nil, WithAnswer(err, "") is err.
func WithAnswer(err error, answer string) error {
	if err == nil || answer == "" {
		return err
	}
	return &answerError{err, answer}
}

// Answer returns what [WithAnswer] added to err, or "".
func Answer(err error) string {
	if a, ok := errors.AsType[*answerError](err); ok {
		return a.answer
	}
	return ""
}

// WithRetryAfter adds to err how long the destination asked to be left alone.
// WithRetryAfter(nil, d) is nil.
func WithRetryAfter(err error, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, after}
}

// RetryAfter returns what [WithRetryAfter] put into err, or 0.
func RetryAfter(err error) time.Duration {
	if r, ok := errors.AsType[*retryAfterError](err); ok {
		return r.after
	}
	return 0
}
