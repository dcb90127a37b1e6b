package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/streams"
)

// Config describes the journal to open.
type Config struct {
	// Conn is the connection to the server. The caller owns it, and closes it
	// after the journal. It must reconnect by itself for ever (MaxReconnects(-1),
	// IgnoreAuthErrorAbort()) and must not buffer meanwhile (ReconnectBufSize(-1)). If
	// it is closed, the journal fails. A peer that takes nothing blocks calls for as
	// long as its FlusherTimeout, a minute by default.
	Conn *nats.Conn
	// Cluster is the name of the Kubernetes cluster in the subjects.
	Cluster string
	// Stream is the name of the stream of events. <Stream>_STATE and the bucket
	// <Stream>_OBJECTS go with it.
	Stream string
	// SubjectPrefix is what subjects begin with: see [event.Event.NATSSubject].
	SubjectPrefix string
	// HistoryPerObject is how many events of an object are kept, at least 1.
	HistoryPerObject int64
	// MaxBytes bounds the stream; 0 is no bound. A journal that is nearly full removes
	// superseded events (package retention). A full one blocks Append.
	MaxBytes int64
	// Replicas of the streams; 0 counts as 1.
	Replicas int
	// Compression turns on S2 for streams that are created.
	Compression bool
	// DeletedRetention is how long the last message of a deleted object stays.
	DeletedRetention time.Duration
	// ScanInterval is the time between two scans of all objects by the janitor; 0 is ten
	// minutes.
	ScanInterval time.Duration
	// Own says that the server is informd's own, so that the limits of existing streams follow
	// the config. On other servers existing streams stay unchanged.
	Own bool
	// Room (only with Own) returns the current limit of the stream, in bytes. The journal calls
	// it every few seconds and sets the limit, never below the stored bytes. If it is nil, the
	// limit is MaxBytes.
	Room func() int64
	// OtherBytes (only with Own) returns the current capacity for all other streams together, in
	// bytes. Dead letters take at most three quarters of it. If it is nil, MaxBytes bounds them.
	OtherBytes func() int64
	// Distrust says that the log is known to be damaged: every checkpoint is void.
	Distrust bool
	// Fence is called before every publish and every Read, which fail with its error, such as a
	// lost lease. Nil allows all.
	Fence func() error
	// Replaces is the closed journal that the new one continues in the same process,
	// after [Journal.Failed]. The new one inherits what it can: see inherit.go.
	Replaces *Journal
	// Existed says that an earlier process had this journal. If the stream of events is
	// missing then, it was deleted, and [Journal.Restore] reports the loss.
	Existed bool
	// Report takes the error of a failing call, and nil when the call succeeds again. It must
	// not block. Optional.
	Report func(call string, err error)
	// Unstorable takes an event that the stream never stores, with the reason. If it returns
	// nil, the event counts as appended, although it is not in the log; after an error it is
	// called again. It may block until ctx ends. If it is nil, such events are counted and
	// logged only.
	Unstorable func(ctx context.Context, e *event.Event, reason error) error
	// Watched reports whether the object or target of an event is watched. The journal reads no
	// states of others for a sink. Calls are concurrent, with events without Data. Nil means
	// that all are watched.
	Watched func(e *event.Event) bool
	// Logger takes messages for operators. Required.
	Logger *slog.Logger
}

// The bounds that are not the user's business.
const (
	defaultScanInterval = 10 * time.Minute
	// tailBytes bounds the newest events, which cursors read without the server.
	tailBytes = 4 << 20

	closePatience = 1500 * time.Millisecond
	// closeTimeout bounds Close.
	closeTimeout = closePatience + 500*time.Millisecond
)

func (c *Config) check() error {
	if c.Conn == nil || c.Logger == nil {
		return errors.New("a connection and a logger are required")
	}
	if err := event.ValidatePrefix(c.SubjectPrefix); err != nil {
		return fmt.Errorf("journal.subjectPrefix: %w", err)
	}
	if c.Stream == "" || strings.ContainsAny(c.Stream, ".*>/\\ \t\r\n") {
		return fmt.Errorf("journal.stream %q: a stream's name has no dots, wildcards, slashes or white space and is not empty", c.Stream)
	}
	if c.HistoryPerObject < 1 {
		return fmt.Errorf("journal.historyPerObject is %d: it must be at least 1, because the last event of an object is its state", c.HistoryPerObject)
	}
	if c.MaxBytes < 0 {
		return fmt.Errorf("journal.maxBytes is %d: it must not be negative", c.MaxBytes)
	}
	return nil
}

// allowed asks the fence.
func (c *Config) allowed() error {
	if c.Fence == nil {
		return nil
	}
	return c.Fence()
}

func (c *Config) watched(e *event.Event) bool { return c.Watched == nil || c.Watched(e) }

func (c *Config) stateStream() string  { return c.Stream + "_STATE" }
func (c *Config) objectBucket() string { return c.Stream + "_OBJECTS" }

// root is what the subjects of all events begin with, without the last dot.
func (c *Config) root() string { return c.SubjectPrefix + "." + event.EscapeToken(c.Cluster) }

// targetSubjects is the filter that matches the objects of a target, ends
// included, and no control record.
func (c *Config) targetSubjects(target string) (string, error) {
	name, namespace, namespaced := strings.Cut(target, "@")
	group, resource, ok := strings.Cut(name, "/")
	if !ok || group == "" || resource == "" {
		return "", fmt.Errorf("target %q is not <group>/<resource>[@<namespace>]", target)
	}
	filter := c.root() + "." + event.EscapeToken(group) + "." + event.EscapeToken(resource) + "."
	if !namespaced {
		return filter + "*.*", nil
	}
	return filter + event.EscapeToken(namespace) + ".*", nil
}

// eventStream is what the stream of events is created as.
func (c *Config) eventStream() js.StreamConfig {
	wanted := streams.Define(c.Stream, "informd's journal: changes of Kubernetes objects", c.root(), c.Replicas)
	// Every object has its subject: its oldest events go, its last one stays.
	wanted.MaxMsgsPerSubject = c.HistoryPerObject
	if c.MaxBytes > 0 {
		wanted.MaxBytes = c.MaxBytes
	}
	if c.Compression {
		wanted.Compression = js.S2Compression
	}
	return wanted
}

// stateConfig is what the stream of marks and positions is created as.
func (c *Config) stateConfig() js.StreamConfig {
	wanted := streams.Define(c.stateStream(), "informd's journal: how far targets and sinks have come", c.stateStream(), c.Replicas)
	wanted.MaxMsgsPerSubject = 1
	return wanted
}
