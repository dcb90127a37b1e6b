// Package history reads what a JetStream journal keeps of one object, and the gaps of all
// targets. It writes nothing and needs no [jetstream.Journal]: any connection that may read
// the stream is enough, also while another informd writes to it.
package history

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// Options describe the journal to read, as [jetstream.Config] does. All are required.
type Options struct {
	// Conn is the connection to the server. The caller owns it.
	Conn *nats.Conn
	// Cluster, Stream and SubjectPrefix are those of the journal.
	Cluster, Stream, SubjectPrefix string
	// Logger takes messages about damaged bodies.
	Logger *slog.Logger
}

// Reader reads the stream. Its methods may be called concurrently; each call asks the
// server, and ends with an error when ctx ends.
type Reader struct{ options Options }

// New returns a reader. It contacts no server.
func New(o Options) *Reader { return &Reader{options: o} }

// Find returns the object with its group. If of names no group and several groups have such an
// object, it is that of the core group, or the error is [journal.ErrAmbiguous]. An object that the journal
// does not know is returned as it is.
func (r *Reader) Find(ctx context.Context, of journal.Object) (journal.Object, error) {
	if of.Group != "" {
		return of, nil
	}
	var groups []string
	err := r.each(ctx, of, scan.Scan{Headers: true, Batch: scan.HeaderBatch}, func(e event.Event) error {
		if g := event.GroupOrCore(e.Group); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
		return nil
	})
	switch {
	case err != nil:
		return of, err
	case slices.Contains(groups, coreGroup):
		of.Group = coreGroup
	case len(groups) == 1:
		of.Group = groups[0]
	case len(groups) > 1:
		return of, fmt.Errorf("%s: %w: %s", of, journal.ErrAmbiguous, strings.Join(groups, ", "))
	}
	return of, nil
}

// Each calls take with the kept events of an object, oldest first, each with its Data, until take
// returns an error. There are none if the journal does not know the object. The last one is its
// present state; how many are kept before it is the journal's historyPerObject. It holds about
// 4 MiB of events at a time, or one.
func (r *Reader) Each(ctx context.Context, of journal.Object, take func(event.Event) error) error {
	return r.each(ctx, of, scan.Scan{Batch: batch, Bytes: batchBytes}, take)
}

func (r *Reader) each(ctx context.Context, of journal.Object, what scan.Scan, take func(event.Event) error) error {
	if err := r.read(ctx, r.filter(of), what, take); err != nil {
		return fmt.Errorf("read the history of %s: %w", of, err)
	}
	return nil
}

// EachGap calls take with the gap events that the journal keeps, oldest first: those of targets,
// and not those of single sinks.
func (r *Reader) EachGap(ctx context.Context, take func(event.Event) error) error {
	gap := event.Event{Cluster: r.options.Cluster, Op: event.Gap, Target: "any"}
	subject := gap.NATSSubject(r.options.SubjectPrefix)
	filter := subject[:strings.LastIndexByte(subject, '.')] + ".*"
	if err := r.read(ctx, filter, scan.Scan{Batch: batch, Bytes: batchBytes}, take); err != nil {
		return fmt.Errorf("read gaps: %w", err)
	}
	return nil
}

const coreGroup = "core"

// filter is the subject of the events of an object.
func (r *Reader) filter(of journal.Object) string {
	e := event.Event{Cluster: r.options.Cluster, Op: event.Modified, Group: of.Group, Resource: of.Resource, Namespace: of.Namespace, Name: of.Name}
	if of.Group == coreGroup {
		e.Group = ""
	}
	subject := e.NATSSubject(r.options.SubjectPrefix)
	if of.Group != "" {
		return subject
	}
	root := r.options.SubjectPrefix + "." + event.EscapeToken(r.options.Cluster) + "."
	return root + "*" + strings.TrimPrefix(subject, root+coreGroup)
}

// read calls take with the events of a subject, without bodies if only headers are scanned.
func (r *Reader) read(ctx context.Context, filter string, what scan.Scan, take func(event.Event) error) error {
	client, err := js.New(r.options.Conn, js.WithDefaultTimeout(server.Timeout))
	if err != nil {
		return err
	}
	found, err := client.Stream(ctx, r.options.Stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", r.options.Stream, err)
	}
	stream := scan.NewStream(found, r.options.Conn, server.New(), false, nil)
	bodies := message.NewObjects(client, js.ObjectStoreConfig{Bucket: r.options.Stream + "_OBJECTS"})
	codec := message.NewCodec(r.options.SubjectPrefix, r.options.Conn, bodies, r.options.Logger)
	codec.Stream = stream
	what.Policy, what.Filters = js.DeliverAllPolicy, []string{filter}
	return stream.Each(ctx, what, func(m scan.Message) (bool, error) {
		e, ok := codec.Identify(m)
		if !ok {
			return true, nil
		}
		if !what.Headers {
			var err error
			if e.Data, err = codec.Body(ctx, m); err != nil {
				return false, err
			}
		}
		return true, take(e)
	})
}

// The bounds of one pull.
const (
	batch      = 64
	batchBytes = 4 << 20
)
