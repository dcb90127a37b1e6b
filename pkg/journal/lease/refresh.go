package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// keep refreshes the lease until it is lost or released.
func (l *Lease) keep(ctx context.Context) {
	timer := time.NewTimer(l.ttl / 4)
	defer timer.Stop()
	paused, reported := false, ""
	for {
		select {
		case <-l.released:
			return
		case <-l.lost:
			return
		case <-timer.C:
		}
		next := l.ttl / 4
		err := l.tryRenew(ctx)
		if err == nil {
			reported = ""
		} else {
			if text := err.Error(); text != reported {
				reported = text
				l.options.Logger.Warn("journal lease not refreshed; retrying", "bucket", l.options.Bucket, "err", err)
			}
			next = l.ttl / 32
			if errors.Is(err, nats.ErrConnectionClosed) && l.Check() != nil {
				l.lose("connection closed")
			}
		}
		switch now := errors.Is(l.Check(), ErrPaused); {
		case now && !paused:
			l.options.Logger.Warn("journal lease expired; writes paused until its server answers", "bucket", l.options.Bucket,
				"next", "check the NATS server; informd stops if another informd takes the lease")
			paused = true
		case paused && l.Check() == nil:
			l.options.Logger.Info("journal lease refreshed; writes resumed", "bucket", l.options.Bucket)
			paused = false
		}
		timer.Reset(next)
	}
}

var (
	// errUnfit: this process does not want to keep the lease at the moment.
	errUnfit = errors.New("this informd cannot use the journal streams")
	// errResting: this process has given the lease back.
	errResting = errors.New("this informd released the lease for a while, because it cannot read the journal")
)

func (l *Lease) tryRenew(ctx context.Context) error {
	if time.Now().Before(l.rest) {
		return errResting
	}
	if l.options.Fit != nil && !l.options.Fit() {
		return errUnfit
	}
	return l.renew(ctx)
}

// renew refreshes the lease once. After an error it is held until its time is over,
// unless it is known to be lost.
func (l *Lease) renew(ctx context.Context) error {
	l.mu.Lock()
	revision, bucket := l.revision, l.bucket
	l.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, l.ttl/8)
	defer cancel()
	from := time.Now()
	revision, err := bucket.Update(limited, l.options.Key, l.value, revision)
	switch {
	case err == nil:
		return l.hold(ctx, bucket, revision, from)
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return l.regain(ctx) // the bucket may have been deleted
	case !stale(err):
		return err
	}
	// An earlier refresh was stored and its answer lost, or it has expired.
	found, err := l.takeUp(limited, bucket)
	if err == nil && found.revision == 0 {
		return l.regain(ctx)
	}
	return err
}

// regain takes a lease that has expired, or whose bucket was deleted, unless another
// process has or had it.
func (l *Lease) regain(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, l.ttl/8)
	defer cancel()
	bucket, err := l.findBucket(limited)
	if err != nil {
		return err
	}
	from := time.Now()
	revision, err := bucket.Create(limited, l.options.Key, l.value)
	if stale(err) { // it has not expired, or an earlier attempt was stored and its answer lost
		found, err := l.takeUp(limited, bucket)
		if err == nil && found.revision == 0 {
			err = errors.New("the bucket gives inconsistent answers")
		}
		return err
	}
	if err != nil {
		l.recreated = l.recreated || !errors.Is(err, jetstream.ErrNoStreamResponse)
		return fmt.Errorf("reacquire the lease: %w", err)
	}
	l.expired = true
	return l.hold(ctx, bucket, revision, from)
}

// takeUp reads the key after a compare-and-set has failed. If the key is of this process,
// the next refresh builds on its revision, and takeUp returns an error, as this one has
// failed. The lease has not expired, unless an attempt to take it again made this revision.
func (l *Lease) takeUp(ctx context.Context, bucket jetstream.KeyValue) (state, error) {
	found, err := l.current(ctx, bucket)
	switch {
	case err != nil || found.revision == 0:
		return found, err
	case !found.ours:
		l.lose(fmt.Sprintf("lease expired, and %s holds it now", found.holder))
		return found, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if found.revision != l.revision && l.recreated {
		l.expired = true
	}
	l.bucket, l.revision = bucket, found.revision
	return found, errors.New("the answer to an earlier refresh was lost")
}

// findBucket finds the bucket or makes it again. It does not wait long for an answer: a
// bucket without a leader has none.
func (l *Lease) findBucket(ctx context.Context) (jetstream.KeyValue, error) {
	limited, cancel := context.WithTimeout(ctx, l.ttl/16)
	defer cancel()
	bucket, err := l.js.KeyValue(limited, l.options.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, _, _, err = openBucket(ctx, l.js, l.options)
		return bucket, err
	}
	if err != nil {
		return nil, fmt.Errorf("open the bucket: %w", explain(err))
	}
	return bucket, nil
}

// hold notes that the server has taken a claim.
func (l *Lease) hold(ctx context.Context, bucket jetstream.KeyValue, revision uint64, from time.Time) error {
	l.mu.Lock()
	l.bucket, l.revision = bucket, revision
	l.mu.Unlock()
	l.recreated = false
	if err := l.resume(ctx); err != nil {
		return err
	}
	l.extend(bucket, revision, from)
	return nil
}

// resume has the holder find out whether another process had the lease, if it had expired.
// While that fails, the key keeps other processes away. After one TTL this process deletes
// the key and takes a rest, so that another one can take the lease.
func (l *Lease) resume(ctx context.Context) error {
	if !l.expired || l.options.Resume == nil {
		l.expired = false
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, l.ttl/4)
	defer cancel()
	err := l.options.Resume(limited)
	switch {
	case err == nil:
		l.expired, l.unsure = false, time.Time{}
		return nil
	case errors.Is(err, ErrLost):
		l.lose("lease expired, and another informd held it: " + err.Error())
		return l.giveBack(ctx)
	case l.unsure.IsZero():
		l.unsure = time.Now()
	case time.Since(l.unsure) >= l.ttl:
		pause := l.ttl
		if l.giveBack(ctx) != nil {
			pause *= 2 // the key has to expire first
		}
		l.unsure, l.rest = time.Time{}, time.Now().Add(pause)
		l.options.Logger.Warn("journal unreadable; lease released, retrying after a pause", "bucket", l.options.Bucket,
			"pause", pause, "err", err)
		return errResting
	}
	return fmt.Errorf("check whether another informd held the lease: %w", err)
}

// giveBack deletes the key.
func (l *Lease) giveBack(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, l.ttl/8)
	defer cancel()
	l.mu.Lock()
	bucket, revision := l.bucket, l.revision
	l.mu.Unlock()
	return bucket.Delete(limited, l.options.Key, jetstream.LastRevision(revision))
}

// state is what the bucket has under the lease's key.
type state struct {
	revision uint64 // 0: nothing
	ours     bool
	holder   string
}

// current returns the state of the lease's key.
func (l *Lease) current(ctx context.Context, bucket jetstream.KeyValue) (state, error) {
	entry, err := bucket.Get(ctx, l.options.Key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	return state{entry.Revision(), bytes.Equal(entry.Value(), l.value), holderOf(entry.Value())}, nil
}

// holderOf is the name in a claim.
func holderOf(value []byte) string {
	var c claim
	if err := json.Unmarshal(value, &c); err != nil || c.Holder == "" {
		return "unknown"
	}
	return c.Holder
}

// extend counts the lease's time from a request's start: the server counts from
// its arrival.
func (l *Lease) extend(bucket jetstream.KeyValue, revision uint64, from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.bucket, l.revision, l.from = bucket, revision, from
		l.wake()
	}
}

func (l *Lease) lose(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(reason)
}

// wake has Wait look again. l.mu is held.
func (l *Lease) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}
