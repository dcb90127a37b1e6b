package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

const (
	lookInterval = 3 * time.Second
	// missingFor is how long the server must say that a stream does not exist before the
	// stream counts as deleted, and missingInterval how often the journal asks meanwhile.
	missingFor      = time.Second
	missingInterval = 250 * time.Millisecond
	// recordInterval is the least time between two saves of positions. A save costs as much
	// as some events, and after a crash a sink gets again what it got since the last one.
	recordInterval = 200 * time.Millisecond
)

// keep looks at the stream now and then and after every reconnect: what it holds,
// what others wrote there, whether it is still the same.
func (j *Journal) keep(ctx context.Context) {
	status := j.config.Conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer j.config.Conn.RemoveStatusListener(status)
	timer := time.NewTimer(lookInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-status:
		case <-j.check:
		case <-timer.C:
		}
		if j.config.Conn.IsClosed() {
			j.log.Stop(fmt.Errorf("%w for good; restart the program, and connect with MaxReconnects(-1) and IgnoreAuthErrorAbort()", nats.ErrConnectionClosed), 0)
			return
		}
		j.look(ctx)
		if j.isMissing() {
			timer.Reset(missingInterval)
		} else {
			timer.Reset(lookInterval)
		}
	}
}

// look compares the streams with what is known of them.
func (j *Journal) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	before := j.log.Tail.End()
	info, err := j.log.Requests.Info(ctx, j.log.Stream)
	if err != nil {
		j.noteMissing(j.config.Stream, err)
		return
	}
	state, err := j.log.Requests.Info(ctx, j.state)
	if err != nil {
		j.noteMissing(j.config.stateStream(), err)
		return
	}
	if j.config.Own && j.config.Room != nil {
		info = j.resizer.Resize(ctx, info)
	}
	j.mu.Lock()
	j.missing = time.Time{}
	j.mu.Unlock()
	if j.space.Set(info) {
		j.space.SignalShort()
	}
	last := info.State.LastSeq
	switch {
	case !info.Created.Equal(j.created):
		j.log.Lose(fmt.Errorf("%w: stream %s was created again", ErrLost, j.config.Stream))
	case !state.Created.Equal(j.stateCreated):
		j.log.Lose(fmt.Errorf("%w: stream %s was created again", ErrMissing, j.config.stateStream()))
	case last < before && info.Config.Replicas > 1 && !j.suspicious.Swap(true):
		// A leader that has just been voted out may not know it yet.
	case last < before:
		j.log.Lose(fmt.Errorf("%w: stream %s ends at sequence %d, and ended at %d before", ErrLost, j.config.Stream, last, before))
	case info.State.Msgs == 0 && !j.config.Own && j.log.Subjects.Any() && j.log.Tail.End() == last && j.publisher.Flights.None():
		j.log.Lose(fmt.Errorf("%w: stream %s was purged", ErrLost, j.config.Stream))
	case last > before && j.log.Tail.End() == before && j.publisher.Flights.None():
		j.log.Tail.Reach(last) // by an append that was given up, or by another writer
	}
	if last >= before {
		j.suspicious.Store(false)
	}
}

// noteMissing has the journal fail when the server has said for a while that a stream
// does not exist. Calls that append or read report other errors.
func (j *Journal) noteMissing(stream string, err error) {
	if !errors.Is(err, js.ErrStreamNotFound) {
		return
	}
	j.mu.Lock()
	if j.missing.IsZero() {
		j.missing = time.Now()
	}
	since := j.missing
	j.mu.Unlock()
	if time.Since(since) >= missingFor {
		j.log.Lose(fmt.Errorf("%w: %s", ErrMissing, stream))
	}
}

// isMissing reports whether a stream seems to be missing and the journal has not failed yet.
func (j *Journal) isMissing() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.missing.IsZero() && j.log.Loss() == nil
}

// record saves the positions that cursors have committed, the latest of each, one
// after the other; at the end what is left, if the server answers.
func (j *Journal) record(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		select {
		case <-j.dirty:
		case <-ctx.Done():
			j.flush(ctx)
			return
		}
		if j.awaits.Load() > 0 {
			timer.Reset(awaitInterval)
		} else {
			timer.Reset(recordInterval)
		}
		for _, c := range j.openCursors() {
			switch err := c.save(ctx); {
			case err == nil:
				j.recording.Over()
			case ctx.Err() == nil && j.log.Loss() == nil:
				j.recording.Begin(err)
				signal(j.dirty)
				timer.Reset(server.LastPause)
			}
		}
		j.janitor.WakeUp()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// flush saves all positions for the last time.
func (j *Journal) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	for _, c := range j.openCursors() {
		c.finish(ctx)
	}
}

func (j *Journal) openCursors() []*cursor {
	open, _ := j.sinks()
	return open
}
