package jetstream

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	lookInterval = 5 * time.Second
	// recordInterval is the least time between two saves of positions.
	recordInterval = 20 * time.Millisecond
)

// keep looks at the stream now and then and after every reconnect: what it holds,
// what others wrote there, whether it is still the same.
func (j *Journal) keep(ctx context.Context) {
	status := j.config.Conn.StatusChanged(nats.CONNECTED)
	defer j.config.Conn.RemoveStatusListener(status)
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-status:
		case <-ticker.C:
		}
		j.look(ctx)
	}
}

func (j *Journal) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	before := j.tail.end()
	info, err := j.stream.Info(ctx)
	if err != nil {
		return // whoever appends or reads says so
	}
	info = j.resize(ctx, info)
	j.mu.Lock()
	j.holds = holdingOf(info)
	j.mu.Unlock()
	last := info.State.LastSeq
	switch {
	case !info.Created.Equal(j.created):
		j.lose(fmt.Errorf("%w: stream %s was created anew", ErrLost, j.config.Stream))
	case last < before && info.Config.Replicas > 1 && !j.suspicious.Swap(true):
		// A leader that has just been voted out may not know it yet.
	case last < before:
		j.lose(fmt.Errorf("%w: stream %s ends at %d and did at %d", ErrLost, j.config.Stream, last, before))
	case last > before && j.tail.end() == before && j.flights.none():
		j.tail.reach(last) // by an append that was given up, or by another writer
	}
	if last >= before {
		j.suspicious.Store(false)
	}
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
		timer.Reset(recordInterval)
		for _, c := range j.openCursors() {
			switch err := c.save(ctx); {
			case err == nil:
				j.recording.over()
			case ctx.Err() == nil && j.loss() == nil:
				j.recording.begin(err)
				signal(j.dirty)
				timer.Reset(lastPause)
			}
		}
		signal(j.janitor.wake)
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
