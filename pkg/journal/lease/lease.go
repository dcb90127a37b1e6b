// Package lease ensures that one process at a time writes to a shared journal: the holder of
// a key in a JetStream key-value bucket. The key expires unless the holder refreshes it, so
// that another process takes over when the holder stops. That is all of informd's high
// availability.
//
// A lease is a promise about time. It separates two running processes, and the holder must
// call [Lease.Check] before it writes. Messages that a process sent before it was frozen can
// arrive after it has lost the lease. The compare-and-set of the journal refuses them.
package lease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/informd/informd/pkg/natsconn/refusal"
)

var (
	// ErrLost is what [Lease.Check] returns once another process has or had the lease.
	ErrLost = errors.New("journal lease lost: another informd may write to the journal now")
	// ErrPaused is what [Lease.Check] returns while the lease could not be refreshed in
	// time, and no other process is known to hold it.
	ErrPaused = errors.New("journal lease not refreshed in time: writes are paused until the lease server answers")
)

// DefaultTTL has a successor take over in well under 15 s.
const DefaultTTL = 8 * time.Second

// Options say which lease, and for whom.
type Options struct {
	// Bucket is the key-value bucket; it is created if it is missing. One that is
	// there must let its keys expire; its own time counts then, not TTL.
	Bucket string
	// Key is the lease's key in it.
	Key string
	// Holder names this process to people: to whoever waits for it.
	Holder string
	// TTL is how long the lease outlives its holder; 0 stands for [DefaultTTL]. The
	// server does not keep time below about a second.
	TTL time.Duration
	// Replicas of a bucket that is created; 0 stands for 1.
	Replicas int
	// Waiting, if set, is called by Acquire whenever it finds that another holder
	// has the lease than before. It should not block.
	Waiting func(holder string)
	// Fit, if set, is asked before every refresh. While it returns false the lease is not
	// refreshed, so that another process can take it. It should not block.
	Fit func() bool
	// Resume, if set, is called when the lease had expired and is taken again. [ErrLost]
	// ends the lease: another process has held it in between. After other errors it is called
	// again, for one TTL; then the lease is free for another process for as long. A call ends
	// after a quarter of the TTL.
	Resume func(ctx context.Context) error
	Logger *slog.Logger
}

// claim is the value of the key.
type claim struct {
	Holder string `json:"holder"`
	// Session tells two claims of the same holder apart.
	Session string `json:"session"`
}

// Lease is held from [Acquire] until it is lost or released. All methods may be
// called concurrently.
type Lease struct {
	stop    func() // closes released, once
	js      jetstream.JetStream
	options Options
	value   []byte
	ttl     time.Duration
	// created: the bucket was made by this process.
	created bool

	// These belong to keep. Expired: the lease had expired, and Resume has not succeeded
	// since. Recreated: an attempt to take it again has no answer. Unsure is since when
	// Resume fails, and rest until when the lease is left to others.
	expired, recreated bool
	unsure, rest       time.Time

	refresh  sync.WaitGroup
	released chan struct{} // ends the refreshing
	lost     chan struct{} // closed when ended is set

	mu       sync.Mutex
	bucket   jetstream.KeyValue
	revision uint64
	from     time.Time // before the request that took or refreshed it was sent
	ended    bool
	changed  chan struct{} // closed and replaced when it is refreshed or ends
}

// Acquire blocks until it holds the lease or ctx ends. It logs the current holder once, and
// retries while the server is not reachable. It fails if the bucket has the wrong settings.
// The connection must reconnect by itself, and stay open until the lease is released.
func Acquire(ctx context.Context, conn *nats.Conn, o Options) (*Lease, error) {
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	value, err := json.Marshal(claim{Holder: o.Holder, Session: nuid.Next()})
	if err != nil {
		return nil, fmt.Errorf("encode the lease: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("use JetStream for the lease: %w", err)
	}
	q := &queue{options: o, js: js, value: value}
	l, err := q.wait(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire the lease %s in bucket %s: %w", o.Key, o.Bucket, err)
	}
	l.refresh.Go(func() { l.keep(context.WithoutCancel(ctx)) })
	o.Logger.Info("journal lease acquired", "bucket", o.Bucket, "holder", o.Holder)
	return l, nil
}

// Check returns nil while the lease is surely held, [ErrPaused] while it could not be
// refreshed in time, and [ErrLost] for ever after another process has taken it. It asks
// the clock and not the server, so that a process that was frozen knows the moment it
// wakes up.
func (l *Lease) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return ErrLost
	case since(l.from) >= l.surely():
		return ErrPaused
	default:
		return nil
	}
}

// Wait blocks until the lease is held, which it mostly is. The error is [ErrLost], or
// the context's.
func (l *Lease) Wait(ctx context.Context) error {
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if err := l.Check(); !errors.Is(err, ErrPaused) {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Created reports whether the lease's bucket was made when the lease was acquired: no
// process had a lease there before.
func (l *Lease) Created() bool { return l.created }

// Lost is closed when the lease is lost or released.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Release gives the lease up at once, so that the next one takes over without
// waiting for it to expire. The caller has stopped writing before. Releasing a
// lost lease, or twice, does nothing.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	l.refresh.Wait() // a refresh under way is not called off: it may be stored already
	l.mu.Lock()
	held, revision, bucket := !l.ended, l.revision, l.bucket
	l.end("")
	l.mu.Unlock()
	if !held {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.ttl)
	defer cancel()
	err := bucket.Delete(ctx, l.options.Key, jetstream.LastRevision(revision))
	if stale(err) { // the last refresh was stored and its answer lost, or it is over
		var found state
		if found, err = l.current(ctx, bucket); err == nil && found.ours {
			err = bucket.Delete(ctx, l.options.Key, jetstream.LastRevision(found.revision))
		}
	}
	if err != nil {
		return fmt.Errorf("release the lease %s, which expires in %s: %w", l.options.Key, l.ttl, err)
	}
	return nil
}

// surely is how long after a refresh nobody else can have the lease. The rest of
// the TTL is for the difference between two clocks' speeds and for the time
// between Check and the act.
func (l *Lease) surely() time.Duration { return l.ttl - l.ttl/8 }

// end marks the lease as lost. l.mu is held.
func (l *Lease) end(reason string) {
	if l.ended {
		return
	}
	l.ended = true
	close(l.lost)
	l.wake()
	if reason != "" {
		l.options.Logger.Warn("journal lease lost; informd stops", "bucket", l.options.Bucket, "reason", reason)
	}
}

// since is the time since then by the clock that says more: the monotonic clock
// does not count while the machine is suspended, the other can be set back.
func since(then time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// stale reports whether a compare-and-set failed because the key has another
// revision.
func stale(err error) bool { return refusal.Of(err) == refusal.Stale }
