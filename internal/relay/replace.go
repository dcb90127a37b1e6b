package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// openPause is the pause between two attempts to open the journal again.
const openPause = time.Second

// watch opens the journal again whenever it has lost events, until ctx ends.
func (j *Journal) watch(ctx context.Context) {
	for {
		g := j.current()
		select {
		case <-g.journal.Failed():
		case <-ctx.Done():
			return
		}
		err := g.journal.Failure()
		if errors.Is(err, jetstream.ErrLost) {
			err = j.replace(ctx, g)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			j.fail(err)
			return
		}
	}
}

// replace opens the journal again in place of g. The error is final.
func (j *Journal) replace(ctx context.Context, g *generation) error {
	began := time.Now()
	j.mu.Lock()
	j.lost, j.problem = began, nil
	j.mu.Unlock()
	j.options.Logger.Error("journal lost; recreating its streams and re-snapshotting (do not delete them)",
		"err", g.journal.Failure())
	r := replacement{relay: j, old: g.journal, unread: g.journal.Unread()}
	end := g.journal.Stats().LastSeq
	j.count(g.journal.Stats())
	if err := g.journal.Close(); err != nil && !errors.Is(err, journal.ErrClosed) {
		j.options.Logger.Warn("lost journal not closed; recreating it anyway", "err", err)
	}
	next, err := r.open(ctx)
	if err != nil {
		return err
	}
	lost := !next.Continues()
	after := &generation{journal: next, base: g.base, over: make(chan struct{})}
	if lost {
		after.base += end
	}
	for c, opened := range r.cursors {
		c.move(opened, after)
	}
	j.mu.Lock()
	j.now, j.lost, j.problem = after, time.Time{}, nil
	j.mu.Unlock()
	close(g.over)
	j.options.Replaced(lost)
	j.options.Logger.Info("journal recovered with new streams", "after", time.Since(began).Round(time.Millisecond),
		"events_lost", lost, "appended_again", len(r.unread))
	return nil
}

// count keeps what a generation has counted.
func (j *Journal) count(s journal.Stats) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.passed.Lost += s.Lost
	j.passed.Oversize += s.Oversize
	j.passed.Foreign += s.Foreign
	j.passed.Overtaken += s.Overtaken
	j.passed.Unstorable += s.Unstorable
	j.passed.Dropped = addDropped(j.passed.Dropped, s.Dropped)
}

// addDropped returns the sum of two [journal.Stats.Dropped]. It changes the first.
func addDropped(to, more map[string]uint64) map[string]uint64 {
	if to == nil {
		return more
	}
	journal.AddDropped(to, more)
	return to
}

// replacement is the opening of a journal in place of a lost one.
type replacement struct {
	relay *Journal
	old   *jetstream.Journal
	// unread are the newest events that a sink has not committed. Rest are those of them
	// that the stream created at that time does not have.
	unread, rest []event.Event
	created      time.Time
	// cursors are open in the new journal.
	cursors map[*cursor]journal.Cursor
}

// open tries until the journal is open and has what can be saved.
func (r *replacement) open(ctx context.Context) (*jetstream.Journal, error) {
	j, logged := r.relay, ""
	for {
		if err := j.options.Wait(ctx); err != nil {
			return nil, err
		}
		next, err := j.options.Open(ctx, r.old)
		if err == nil {
			if err = r.fill(ctx, next); err == nil {
				return next, nil
			}
			err = errors.Join(err, next.Close())
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		j.mu.Lock()
		j.problem = err
		j.mu.Unlock()
		if text := err.Error(); text != logged {
			logged = text
			j.options.Logger.Error("journal not reopened; retrying", "err", err)
		}
		select {
		case <-time.After(openPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fill opens the cursors, which read all that follows, and appends what they had not
// committed.
func (r *replacement) fill(ctx context.Context, next *jetstream.Journal) error {
	j := r.relay
	j.mu.Lock()
	uid := j.bound
	cursors := make(map[*cursor]journal.Cursor, len(j.cursors))
	for c := range j.cursors {
		cursors[c] = nil
	}
	j.mu.Unlock()
	if uid != "" {
		if err := next.Bind(ctx, uid); err != nil {
			return err
		}
	}
	for c := range cursors {
		opened, err := next.Open(c.name, c.start)
		if err != nil {
			return err
		}
		cursors[c] = opened
	}
	r.cursors = cursors
	if next.Continues() {
		r.unread = nil
		return nil
	}
	if !next.Created().Equal(r.created) {
		r.rest, r.created = r.unread, next.Created()
	}
	var err error
	r.rest, err = next.AppendRest(ctx, r.rest)
	if errors.Is(err, jetstream.ErrFenced) {
		// The stream was not deleted, and has newer events of these objects.
		j.options.Logger.Warn("unread events superseded; re-snapshotting all objects", "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("append what sinks have not read: %w", err)
	}
	return nil
}
