package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
)

// requestTimeout bounds one request to JetStream; most are repeated sooner.
const requestTimeout = 5 * time.Second

// streamAge is how long a Write relies on what was read of the stream. Its acknowledgements
// do not say that the stream is another one, if that has more messages, or that its settings
// have changed.
const streamAge = 30 * time.Second

// streamConfig returns the config of a stream that the sink creates.
func (c *Config) streamConfig() jetstream.StreamConfig {
	const noLimit = -1
	return jetstream.StreamConfig{
		Name:        c.Stream,
		Description: "Events of Kubernetes objects, written by informd",
		Subjects:    []string{c.SubjectPrefix + ".>"},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew, // old would remove the last state of objects without an error
		// Every object has its subject: its oldest events are removed, its last one stays.
		MaxMsgsPerSubject: cmp.Or(int64(c.Create.HistoryPerObject), noLimit),
		MaxAge:            c.Create.MaxAge,
		MaxBytes:          cmp.Or(int64(c.Create.MaxBytes), noLimit),
		Replicas:          max(c.Create.Replicas, 1),
		AllowDirect:       true,
	}
}

// destination is the stream as it was found over one connection.
type destination struct {
	conn   *client.Conn
	js     jetstream.JetStream
	stream jetstream.Stream // nil: to be read
	read   time.Time        // when the stream was read
	limit  int64            // bytes that a message may have
	last   uint64           // the sequence of the last message that the stream is known to have
	again  bool             // the stream has to be read again
}

// locate makes s.dest the stream over the current connection: it creates the
// stream if it does not exist, and refuses one that would lose or hide events. It reads
// the stream again after streamAge. If that fails, no event is sent, and the next Write
// reads the stream.
func (s *streamSink) locate(ctx context.Context) error {
	conn, err := s.link.connection(ctx)
	if err != nil {
		return err
	}
	if s.dest.conn != conn {
		// One per connection: each has a subscription and a goroutine that live
		// as long as the connection.
		js, err := jetstream.New(conn, jetstream.WithPublishAsyncTimeout(ackTimeout), jetstream.WithDefaultTimeout(requestTimeout))
		if err != nil {
			return fmt.Errorf("use JetStream: %w", err)
		}
		s.dest = destination{conn: conn, js: js}
	}
	if s.dest.stream != nil && time.Since(s.dest.read) < streamAge {
		return nil
	}
	s.dest.stream = nil
	stream, err := s.find(ctx)
	if err != nil {
		return err
	}
	stored := stream.CachedInfo()
	config := stored.Config
	if found := differences(config, s.form.prefix, s.cluster); len(found) > 0 {
		return fmt.Errorf("stream %s cannot be used: %s; change the stream, or set stream to another name", config.Name, strings.Join(found, "; "))
	}
	s.dest.stream, s.dest.read, s.dest.limit, s.dest.last = stream, time.Now(), conn.MaxPayload(), stored.State.LastSeq
	if s.found != nil {
		s.found(s.identity(stored))
	}
	if most := int64(config.MaxMsgSize); most > 0 {
		s.dest.limit = min(s.dest.limit, most)
	}
	return nil
}

// identity tells the stream from a later one of the same name. Other subjects of the same stream are
// another destination; the default ones are not named.
func (s *streamSink) identity(of *jetstream.StreamInfo) string {
	parts := []string{of.Config.Name, of.Created.UTC().Format(time.RFC3339Nano)}
	if s.form.prefix != defaultPrefix {
		parts = append(parts, s.form.prefix)
	}
	return strings.Join(parts, " ")
}

// find returns the stream, which it creates if it does not exist.
func (s *streamSink) find(ctx context.Context) (jetstream.Stream, error) {
	name := s.config.Name
	var stream jetstream.Stream
	err := s.ask(ctx, func(ctx context.Context) (err error) {
		stream, err = s.dest.js.Stream(ctx, name)
		return err
	})
	switch {
	case err == nil:
		return stream, nil
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("find stream %s: %w", name, explainAPI(err))
	case !s.create:
		return nil, fmt.Errorf("stream %s does not exist, and create is false: %w; create a stream with the subjects %s, or set create: true", name, err, s.config.Subjects[0])
	}
	return s.createStream(ctx)
}

func (s *streamSink) createStream(ctx context.Context) (stream jetstream.Stream, err error) {
	err = s.ask(ctx, func(ctx context.Context) (err error) {
		stream, err = s.dest.js.CreateStream(ctx, s.config)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create stream %s: %w", s.config.Name, s.explainCreate(ctx, err))
	}
	s.logger.Info("created the stream; set create to change its limits, or to false to create none", "stream", s.config.Name,
		"subjects", s.config.Subjects, "history_per_object", max(s.config.MaxMsgsPerSubject, 0))
	return stream, nil
}

// ask sends a request to JetStream and waits as long as an answer may take.
func (s *streamSink) ask(ctx context.Context, question func(ctx context.Context) error) error {
	began, limit := time.Now(), s.asking.Now()
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: JetStream has not answered within %v", errNoAnswer, limit))
	defer cancel()
	err := question(limited)
	switch {
	case err == nil:
		s.asking.Answered(time.Since(began))
		return nil
	case limited.Err() == nil:
		return err
	case ctx.Err() == nil:
		s.asking.Unanswered()
	}
	return context.Cause(limited) // for example that the server denies a permission
}

func (s *streamSink) explainCreate(ctx context.Context, err error) error {
	var answer *jetstream.APIError
	if !errors.As(err, &answer) || answer.ErrorCode != codeSubjectsOverlap {
		return explainAPI(err)
	}
	owner := "another stream"
	_ = s.ask(ctx, func(ctx context.Context) error { // only to say it more clearly
		name, err := s.dest.js.StreamNameBySubject(ctx, s.config.Subjects[0])
		if err == nil {
			owner = "stream " + name
		}
		return err
	})
	return fmt.Errorf("%s already has some of the subjects %s; set another subjectPrefix, or set stream to its name",
		owner, s.config.Subjects[0])
}

// explainAPI adds what to do to the error of a request to JetStream.
func explainAPI(err error) error {
	switch {
	case errors.Is(err, client.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("the server has no JetStream for this account, or JetStream is not ready: %w; "+
			"enable JetStream on the server and for the account, or set jetstream: false to publish to current subscribers only (at most once)", err)
	default:
		return err
	}
}

// differences lists the settings with which a stream would lose or hide events.
func differences(c jetstream.StreamConfig, prefix, cluster string) []string {
	var found []string
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	wanted := prefix + "." + event.EscapeToken(cluster) + ".>"
	covered := slices.ContainsFunc(c.Subjects, func(pattern string) bool { return covers(pattern, wanted) })
	refuse(!covered, "its subjects %q do not cover %s", c.Subjects, wanted)
	refuse(c.Storage != jetstream.FileStorage, "its storage is memory, want file: acknowledged events would not survive a restart of the server")
	refuse(c.Retention != jetstream.LimitsPolicy, "its retention is %v, want limits: events would be removed before every consumer has read them", c.Retention)
	refuse(c.PersistMode != jetstream.DefaultPersistMode, "its persist_mode is %v, want default: it acknowledges before it writes", c.PersistMode)
	refuse(c.Discard != jetstream.DiscardNew && (c.MaxBytes > 0 || c.MaxMsgs > 0),
		"its discard policy is old with max_bytes or max_msgs set, want new: when full it would remove the last state of objects unread")
	refuse(c.DiscardNewPerSubject, "discard_new_per_subject is on: it would refuse the later states of an object")
	refuse(c.NoAck, "no_ack is on: it acknowledges nothing")
	refuse(c.Sealed, "it is sealed")
	refuse(c.SubjectTransform != nil, "it has a subject transform: an object's last event could not be found")
	return found
}

// covers reports whether every subject that matches wanted matches pattern. Both
// may have wildcards.
func covers(pattern, wanted string) bool {
	have, want := strings.Split(pattern, "."), strings.Split(wanted, ".")
	for i, token := range have {
		switch {
		case i >= len(want):
			return false
		case token == ">":
			return true
		case want[i] == ">", token != "*" && token != want[i]:
			return false
		}
	}
	return len(have) == len(want)
}
