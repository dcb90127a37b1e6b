package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/journal"
)

// ErrLost says that another process has or had the lease.
var ErrLost = errors.New("lease lost: another informd may have taken over")

// errPaused says that the lease could not be renewed in time, and nobody else is known to have it.
var errPaused = errors.New("lease not renewed in time: nothing is delivered until the API server answers")

const (
	// followEvery is how often the leader looks at its followers.
	followEvery = 100 * time.Millisecond
	// late is how long a new object waits for a follower at most, before the others go on without it.
	late = time.Second
	// settling is how long followers have to take the end of the log before the lease is released.
	settling = time.Second
)

// Leadership is a lease that this process has taken, until it is lost or released. Its methods may be
// called concurrently.
type Leadership struct {
	client  *client
	logger  *slog.Logger
	server  *Server
	journal *journal.Journal // nil until Begin; of keep and Release afterwards

	keeping sync.WaitGroup
	stop    context.CancelFunc
	lost    chan struct{}

	writing sync.Mutex // held while the Lease is written

	mu     sync.Mutex
	record record
	// unsure: a write may have been stored whose answer was lost, so the Lease may list others than record.
	unsure bool
	from   time.Time // before the request that took or renewed it was sent
	err    error     // ErrLost
	// held ends when the lease is not surely held any more, and is replaced when it is again. Expiry ends it.
	held    context.Context //nolint:containedctx // a state that others wait for
	expire  context.CancelFunc
	expiry  *time.Timer
	changed chan struct{} // closed and replaced with each renewal and at the end
}

func newLeadership(c *client, s *Server, logger *slog.Logger, r record, from time.Time) *Leadership {
	l := &Leadership{client: c, logger: logger, server: s, lost: make(chan struct{}), changed: make(chan struct{})}
	l.held, l.expire = context.WithCancel(context.Background())
	l.expiry = time.AfterFunc(l.surely(), l.pause)
	l.renewed(r, from)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.keeping.Go(func() { l.keep(ctx) })
	return l
}

// Begin serves the log to followers from now on, and notes in the Lease whose log counts. Nothing may have
// been delivered from it before.
func (l *Leadership) Begin(ctx context.Context, j *journal.Journal) error {
	files, err := j.Shipping().Files()
	if err != nil {
		return err
	}
	for {
		err := l.write(ctx, func(r *record) { r.leader, r.log, r.inSync = l.client.me, files.Log, nil })
		if err == nil || errors.Is(err, ErrLost) || ctx.Err() != nil {
			if err == nil {
				l.mu.Lock()
				l.journal = j
				l.mu.Unlock()
				l.server.serve(j, l)
			}
			return errors.Join(err, ctx.Err())
		}
		l.logger.Warn("lease not written; retrying", "lease", l.client.name, "err", err)
		select {
		case <-time.After(l.client.duration / 8):
		case <-l.lost:
		case <-ctx.Done():
		}
	}
}

// surely is how long after a renewal nobody else can have the lease. The rest is for clocks of different
// speed, and for what is between a check and the act.
func (l *Leadership) surely() time.Duration { return l.client.duration - l.client.duration/8 }

// silence is how long a follower may be silent: it asks again after a quarter of the duration at most.
func (l *Leadership) silence() time.Duration { return l.client.duration/2 + late }

// Term is the number of the takeover.
func (l *Leadership) Term() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.term
}

// Check is nil while the lease is surely held. It asks the clocks and not the API server, so that a process
// that was frozen knows the moment it goes on.
func (l *Leadership) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check()
}

func (l *Leadership) check() error {
	switch {
	case l.err != nil:
		return l.err
	case since(l.from) >= l.surely():
		return errPaused
	default:
		return nil
	}
}

// Lost is closed when the lease is lost or released.
func (l *Leadership) Lost() <-chan struct{} { return l.lost }

// Hold waits until the lease is surely held, and returns a context that ends as soon as it is not. The
// caller calls release afterwards. The errors are [ErrLost] and that of ctx.
func (l *Leadership) Hold(ctx context.Context) (_ context.Context, release func(), _ error) {
	for {
		l.mu.Lock()
		changed, held, err := l.changed, l.held, l.check()
		l.mu.Unlock()
		switch {
		case err == nil && held.Err() == nil:
			ctx, cancel := context.WithCancelCause(ctx)
			stop := context.AfterFunc(held, func() { cancel(errPaused) })
			return ctx, func() { stop(); cancel(nil) }, nil
		case errors.Is(err, ErrLost):
			return nil, nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// pause ends what was begun under the lease, unless it was renewed meanwhile.
func (l *Leadership) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := l.surely() - since(l.from); left > 0 && l.err == nil {
		l.expiry.Reset(left)
		return
	}
	l.expire()
	if l.err == nil {
		l.logger.Warn("lease expired; delivery paused until the API server answers", "lease", l.client.name)
	}
}

// renewed notes that the API server has a record of this process.
func (l *Leadership) renewed(r record, from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record, l.from, l.unsure = r, from, false
	if l.held.Err() != nil {
		l.held, l.expire = context.WithCancel(context.Background())
		l.logger.Info("lease renewed; delivery resumed", "lease", l.client.name)
	}
	l.expiry.Reset(max(0, l.surely()-since(from)))
	close(l.changed)
	l.changed = make(chan struct{})
}

// lose ends the leadership.
func (l *Leadership) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	l.expiry.Stop()
	l.expire()
	close(l.lost)
	close(l.changed)
	l.changed = make(chan struct{})
}

// write writes the Lease once, with a change. After an error the lease is held until its time is over, unless
// it is [ErrLost].
func (l *Leadership) write(ctx context.Context, change func(*record)) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	limited, cancel := context.WithTimeout(ctx, l.client.duration/4)
	defer cancel()
	l.mu.Lock()
	r := l.record
	l.unsure = true
	l.mu.Unlock()
	change(&r)
	from := time.Now()
	written, err := l.client.put(limited, r)
	if err == nil {
		l.renewed(written, from)
		return nil
	}
	if !errors.Is(err, errConflict) {
		return err
	}
	// An earlier write arrived and its answer was lost, somebody has edited the Lease, or it is another's.
	found, err := l.client.get(limited)
	switch {
	case err != nil:
		return err
	case found.version == "", found.holder == l.client.me && found.term == r.term, found.holder == "" && found.term == r.term && r.holder == "":
		l.mu.Lock()
		l.record.version = found.version
		l.mu.Unlock()
		return errConflict // the next attempt builds on it
	}
	err = fmt.Errorf("%w (%s, term %d)", ErrLost, found.holder, found.term)
	l.lose(err)
	return err
}

// keep renews the lease, and keeps the list of followers in it, until the leadership ends.
func (l *Leadership) keep(ctx context.Context) {
	ticker := time.NewTicker(min(followEvery, l.client.duration/8))
	defer ticker.Stop()
	reported := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.lost:
			return
		case <-ticker.C:
		}
		l.mu.Lock()
		j, before, due := l.journal, l.record.inSync, l.unsure || since(l.from) >= l.client.duration/4
		l.mu.Unlock()
		if j != nil && j.Hung() {
			continue // another one can go on
		}
		inSync, gone := before, []string(nil)
		if j != nil {
			inSync, gone = listed(before, j.Shipping().Following(late, l.silence()))
			due = due || !slices.Equal(inSync, before)
		}
		if !due {
			l.release(j, gone) // the Lease does not list them
			continue
		}
		err := l.write(ctx, func(r *record) {
			if j != nil {
				r.inSync = inSync
			}
		})
		if err == nil {
			reported = false
			l.release(j, gone) // nobody counts on them any more
			continue
		}
		if !reported && !errors.Is(err, errConflict) && ctx.Err() == nil {
			reported = true
			l.logger.Warn("lease not renewed; retrying", "lease", l.client.name, "err", err)
		}
	}
}

// listed returns which followers the Lease is to list, and which no longer count.
func listed(before []string, now journal.Following) (inSync, gone []string) {
	for _, name := range before {
		if !slices.Contains(now.Late, name) {
			inSync = append(inSync, name)
		}
	}
	for _, name := range now.InSync {
		if !slices.Contains(now.Late, name) && !slices.Contains(inSync, name) {
			inSync = append(inSync, name)
		}
	}
	slices.Sort(inSync)
	return inSync, now.Late
}

func (l *Leadership) release(j *journal.Journal, followers []string) {
	for _, name := range followers {
		l.logger.Warn("follower too slow; new objects do not wait for it any more", "follower", name,
			"runbook", display.AlertRunbook("InformdNoFollowerInSync"))
		j.Shipping().Release(name)
	}
}

// Release gives the lease up, so that a follower takes over at once. Nothing may be written to the journal or to
// a sink any more. The followers have a second to take the end of the log, or they are not in the Lease. A lost
// lease needs no release.
func (l *Leadership) Release(ctx context.Context) error {
	l.mu.Lock()
	j := l.journal
	l.mu.Unlock()
	var behind []string
	if j != nil && l.Check() == nil {
		limited, cancel := context.WithTimeout(ctx, settling)
		behind = j.Shipping().Settle(limited)
		cancel()
	}
	l.stop()
	l.keeping.Wait()
	defer l.server.serve(nil, nil)
	if l.Check() != nil {
		l.lose(ErrLost)
		return nil
	}
	err := errConflict
	for range 2 { // the last renewal may have arrived although it was called off
		if errors.Is(err, errConflict) {
			err = l.write(ctx, func(r *record) { r.holder, r.inSync = "", l.settled(r.inSync, j, behind) })
		}
	}
	l.lose(ErrLost)
	if err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("release lease %s, which expires in %s: %w", l.client.name, l.client.duration, err)
	}
	return nil
}

// settled returns the followers that have everything, of those in the Lease and of those that have come since.
func (l *Leadership) settled(before []string, j *journal.Journal, behind []string) []string {
	if j == nil {
		return before
	}
	all, _ := listed(before, j.Shipping().Following(late, l.silence()))
	return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(behind, name) })
}

// Following returns the followers of now.
func (l *Leadership) Following() journal.Following {
	l.mu.Lock()
	j, inSync := l.journal, l.record.inSync
	l.mu.Unlock()
	if j == nil {
		return journal.Following{}
	}
	now := j.Shipping().Following(late, l.silence())
	now.InSync = inSync
	return now
}
