package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// queue waits for the lease.
type queue struct {
	options Options
	js      jetstream.JetStream
	value   []byte

	bucket  jetstream.KeyValue
	ttl     time.Duration
	created bool      // the bucket was made here
	missing time.Time // since when the bucket is missing that was there before
	holder  string    // whom Waiting was last told of
	trouble string    // the last error that was logged
}

// errHeld is a wait that goes on.
var errHeld = errors.New("another informd holds the lease")

const (
	// pollEvery is how often a waiting process looks: nobody says when a key expires.
	pollEvery = 500 * time.Millisecond
	// tryTimeout bounds one attempt.
	tryTimeout = 5 * time.Second
)

// wait returns the lease when it is held.
func (q *queue) wait(ctx context.Context) (*Lease, error) {
	ticker := time.NewTicker(min(pollEvery, q.options.TTL/8))
	defer ticker.Stop()
	for {
		l, err := q.try(ctx)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if permanent(err) {
			return nil, err
		}
		q.report(err)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// try makes one attempt.
func (q *queue) try(ctx context.Context) (*Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	if err := q.open(ctx); err != nil {
		return nil, err
	}
	entry, err := q.bucket.Get(ctx, q.options.Key)
	from := time.Now()
	var revision uint64
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		revision, err = q.bucket.Create(ctx, q.options.Key, q.value)
	case err != nil:
		q.bucket, q.missing = nil, time.Now() // it may have been deleted
		return nil, fmt.Errorf("read the holder of the lease: %w", err)
	case bytes.Equal(entry.Value(), q.value):
		// An earlier attempt of ours was stored and its answer lost.
		revision, err = q.bucket.Update(ctx, q.options.Key, q.value, entry.Revision())
	default:
		q.waitFor(entry.Value())
		return nil, errHeld
	}
	if stale(err) {
		return nil, errHeld // somebody was faster; the next look says who
	}
	if err != nil {
		return nil, fmt.Errorf("claim the lease: %w", err)
	}
	return q.lease(revision, from), nil
}

func (q *queue) lease(revision uint64, from time.Time) *Lease {
	released := make(chan struct{})
	return &Lease{
		stop:     sync.OnceFunc(func() { close(released) }),
		released: released,
		js:       q.js,
		options:  q.options,
		created:  q.created,
		changed:  make(chan struct{}),
		bucket:   q.bucket,
		value:    q.value,
		ttl:      q.ttl,
		lost:     make(chan struct{}),
		revision: revision,
		from:     from,
	}
}

// errBucket is a bucket that cannot hold a lease.
var errBucket = errors.New("the bucket cannot hold a lease")

// open finds the bucket or makes it. A bucket that was there and is missing is made
// again when the lease in it would have expired: its holder makes it sooner.
func (q *queue) open(ctx context.Context) error {
	if q.bucket != nil {
		return nil
	}
	if q.ttl > 0 && time.Since(q.missing) < q.ttl {
		if _, err := q.js.KeyValue(ctx, q.options.Bucket); errors.Is(err, jetstream.ErrBucketNotFound) {
			return errHeld
		}
	}
	bucket, ttl, created, err := openBucket(ctx, q.js, q.options)
	if err != nil {
		return err
	}
	q.bucket, q.ttl, q.created = bucket, ttl, created && q.ttl == 0
	return nil
}

// openBucket finds the bucket or makes it: created. It is kept in files: a lease that a
// restart of the server forgets would be given to two.
func openBucket(ctx context.Context, js jetstream.JetStream, o Options) (bucket jetstream.KeyValue, ttl time.Duration, created bool, err error) {
	bucket, err = js.KeyValue(ctx, o.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		created = true
		bucket, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: o.Bucket, Description: "informd: who writes to the journal",
			TTL: o.TTL, History: 1, Storage: jetstream.FileStorage, Replicas: o.Replicas,
		})
	}
	if err != nil {
		return nil, 0, false, fmt.Errorf("open the bucket: %w", explain(err))
	}
	status, err := bucket.Status(ctx)
	if err != nil {
		return nil, 0, false, fmt.Errorf("read the state of the bucket: %w", err)
	}
	if status.TTL() <= 0 {
		return nil, 0, false, fmt.Errorf("%w: its keys do not expire, so no other informd could take over; delete the bucket, and informd creates a new one", errBucket)
	}
	if config := status.Config(); config.Storage != jetstream.FileStorage {
		return nil, 0, false, fmt.Errorf("%w: its storage is memory, so after a restart of the server two informd could hold the lease; delete the bucket, and informd creates a new one", errBucket)
	}
	return bucket, status.TTL(), created, nil
}

// waitFor tells who holds the lease, once.
func (q *queue) waitFor(value []byte) {
	holder := holderOf(value)
	if holder == q.holder {
		return
	}
	q.holder = holder
	q.options.Logger.Info("journal lease held by another informd; waiting", "bucket", q.options.Bucket, "holder", holder)
	if q.options.Waiting != nil {
		q.options.Waiting(holder)
	}
}

// report logs trouble, once for each kind.
func (q *queue) report(err error) {
	if errors.Is(err, errHeld) {
		q.trouble = ""
		return
	}
	if errors.Is(err, nats.ErrReconnectBufExceeded) {
		err = errors.New("no connection to the server") // the library says that its buffer is full
	}
	if text := err.Error(); text != q.trouble {
		q.trouble = text
		q.options.Logger.Warn("journal lease unavailable; retrying", "bucket", q.options.Bucket, "err", err)
	}
}

// explain adds the next step to the error of a server without JetStream. A server answers
// so while it starts, too.
func explain(err error) error {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return fmt.Errorf("the server has no JetStream for this account, or JetStream is not ready: %w (enable JetStream on the server and for the account, or use journal.type: embedded)", err)
	}
	return err
}

// permanent reports whether trying again is of no use.
func permanent(err error) bool {
	return errors.Is(err, errBucket) ||
		errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, jetstream.ErrInvalidBucketName) ||
		errors.Is(err, jetstream.ErrInvalidKey) ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
}
