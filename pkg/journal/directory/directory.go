// Package directory opens a durable journal in a directory: a JetStream journal (package
// jetstream) on a server in the process (package embedded), with the defaults of informd.
package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/embedded"
	"github.com/informd/informd/pkg/journal/jetstream"
)

const (
	defaultMaxBytes         = 10 << 30
	defaultDeletedRetention = 7 * 24 * time.Hour
	defaultHistory          = 16
	stream                  = "INFORMD"
	subjectPrefix           = "k8s"
)

// Config is the configuration of a journal in a directory. Dir and Cluster are required.
type Config struct {
	// Dir is the directory. Open creates a missing one. One process at a time can have it open.
	Dir string
	// Cluster is the name of the cluster, the same as in the options of dynwatch and informer.
	Cluster string
	// ClusterUID is the UID of the Namespace kube-system. If it is not empty, Open fails for a
	// journal of another cluster, whose resourceVersions mean nothing here.
	ClusterUID string
	// MaxBytes is the limit of the events on the disk, in bytes (default: 10 GiB). A nearly full
	// journal removes superseded events, and a full one blocks the watches.
	MaxBytes int64
	// HistoryPerObject is the number of events kept per object (default: 16).
	HistoryPerObject int64
	// DeletedRetention is how long the last event of a deleted object stays (default: 7 days). A
	// reader that is away for longer can miss the deletion.
	DeletedRetention time.Duration
	// Watched reports whether the object or target of an event is watched; nil for all. See
	// [jetstream.Config].
	Watched func(e *event.Event) bool
	// Logger is slog.Default() if nil.
	Logger *slog.Logger
}

// Journal is a durable journal. Its methods may be called concurrently.
type Journal struct {
	*jetstream.Journal

	server *embedded.Server
}

var _ journal.Journal = (*Journal)(nil)

// Open opens the journal of a directory. It checks the files first, which takes some seconds for
// a large journal. The error says if another process has the directory open, or that the journal
// belongs to another cluster. The caller closes the journal.
func Open(ctx context.Context, c Config) (_ *Journal, err error) {
	if c.Cluster == "" {
		return nil, errors.New("open journal: Cluster is required")
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	server, err := embedded.Start(ctx, embedded.Config{Dir: c.Dir, Stream: stream, MaxBytes: cmp.Or(c.MaxBytes, defaultMaxBytes), Logger: c.Logger})
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{server: server}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open journal: %w", err), j.Close())
		}
	}()
	damaged := server.Damaged()
	j.Journal, err = jetstream.Open(ctx, jetstream.Config{
		Conn: server.Conn(), Cluster: c.Cluster, Stream: stream, SubjectPrefix: subjectPrefix,
		HistoryPerObject: cmp.Or(c.HistoryPerObject, defaultHistory), DeletedRetention: cmp.Or(c.DeletedRetention, defaultDeletedRetention),
		MaxBytes: server.MaxBytes(), Room: server.MaxBytes, OtherBytes: server.OtherBytes, Own: true, Distrust: damaged, Watched: c.Watched, Logger: c.Logger,
	})
	if err != nil {
		return nil, err
	}
	if damaged { // Open has made all checkpoints void
		if err := server.MadeGood(); err != nil {
			return nil, err
		}
	}
	if c.ClusterUID != "" {
		if err := j.Bind(ctx, c.ClusterUID); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// State reports whether the journal works, and why not.
func (j *Journal) State() (ok bool, reason string) { return j.server.State() }

// Close closes the journal. Blocked calls return [journal.ErrClosed].
func (j *Journal) Close() error {
	var err error
	if j.Journal != nil {
		err = j.Journal.Close()
	}
	return errors.Join(err, j.server.Close())
}
