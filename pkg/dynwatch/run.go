package dynwatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

const (
	// runBytes limits the journal of Run if it has none, in bytes.
	runBytes = 256 << 20
	// runBatch is the most events between two commits of Run.
	runBatch = 256
	// runReader is the name of the cursor of Run.
	runReader = "run"
)

// Run watches resources and calls handle with each event, one call at a time: first with the
// objects that there are, between the events begin and synced of each target, then with each
// change, in its order per target. It returns nil when ctx ends, and the error of handle if that
// fails.
//
// Only Kubernetes is required. Without a Log, Run has a temporary one of up to 256 MiB in a directory
// below [os.TempDir], see [journal.OpenTemporary]. When that is nearly full because handle is slow,
// superseded events that handle has not got are left out, and a gap counts them; when that is not enough,
// the watches wait for handle. A restart begins with the objects that there are.
//
// With a durable [journal.Journal] as Log, a restart continues behind the last event that was
// handled, deletions during the downtime included; the cursor in the journal has the name "run".
// An event whose handling failed or was cut off comes again, with the same id. Cluster and
// RedactionKey are required then, and must stay the same. Run does not close the journal.
//
// Without Reject, objects that cannot be emitted are logged only. Errors of the API
// server do not end Run: see the package documentation.
//
// Handle also gets events without an object: begin and synced, gap, and state, for example of a
// resource that is not served, which Run waits for. Handle may keep the event, but not its Data, which is valid until handle returns.
func Run(ctx context.Context, options Options, resources []Resource, handle func(event.Event) error) (err error) {
	if len(resources) == 0 || handle == nil {
		return errors.New("run: at least one resource and a function are required")
	}
	log, err := options.forRun()
	if err != nil {
		return err
	}
	if options.Log == nil {
		options.Log = log
		defer func() { err = errors.Join(err, log.Close()) }()
	}
	manager, err := New(options)
	if err != nil {
		return err
	}
	cursor, err := log.Open(runReader, journal.FromSnapshot)
	if err != nil {
		manager.Close()
		return fmt.Errorf("run: %w", err)
	}
	defer func() {
		manager.Close()
		err = errors.Join(err, cursor.Close())
	}()
	if err := manager.Apply(resources); err != nil {
		return err
	}
	for {
		err := handleNext(ctx, cursor, handle)
		if ctx.Err() != nil && !errors.As(err, new(*handleError)) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("run: %w", err)
		}
	}
}

// forRun sets what Run does not require, and returns the journal.
func (o *Options) forRun() (*journal.Journal, error) {
	if o.Reject == nil {
		o.Reject = func(context.Context, Rejected) error { return nil } // the target logs it
	}
	if o.Log == nil {
		o.Cluster = cmp.Or(o.Cluster, "default")
		if o.RedactionKey == nil {
			o.RedactionKey = make([]byte, 32)
			_, _ = rand.Read(o.RedactionKey) // never fails
		}
		log, err := journal.OpenTemporary("", journal.Config{Cluster: o.Cluster, MaxBytes: runBytes, Logger: o.Logger})
		if err != nil {
			return nil, fmt.Errorf("run: %w", err)
		}
		return log, nil
	}
	log, ok := o.Log.(*journal.Journal)
	if !ok {
		return nil, errors.New("run: Log must be a *journal.Journal, or nil; with another Log, use New")
	}
	if o.Cluster == "" || len(o.RedactionKey) < minKey {
		return nil, fmt.Errorf("run: with a Log, Cluster and a RedactionKey of at least %d bytes are required", minKey)
	}
	return log, nil
}

// handleError is an error of the caller's function.
type handleError struct{ error }

func (e *handleError) Unwrap() error { return e.error }

// handleNext handles the next events and commits them, those before a failure too.
func handleNext(ctx context.Context, cursor *journal.Cursor, handle func(event.Event) error) error {
	entries, err := cursor.Read(ctx, runBatch)
	if err != nil {
		return err
	}
	var handled uint64
	for i := range entries {
		if ctx.Err() != nil {
			break
		}
		if err = handle(entries[i].Event); err != nil {
			err = &handleError{err}
			break
		}
		handled = max(handled, entries[i].Seq) // some entries of a snapshot have none
	}
	if handled == 0 {
		return err
	}
	return errors.Join(err, cursor.Commit(handled))
}
