package jetstream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/informd/informd/pkg/event"
)

const (
	standstill = 10 * time.Second
	// awaitInterval is how often the cursors are looked at. Meanwhile their positions are
	// saved as often.
	awaitInterval = 20 * time.Millisecond
)

// await is one call of Await.
type await struct {
	journal  *Journal
	subjects []uint64 // hashes, 0 for what takes no place in an object's history
}

// Await implements [journal.Log]. It counts durable commits only, so that nothing is
// missing after a crash. Recovered history takes half of an object's places at most; the
// others are for live events, which do not wait.
func (j *Journal) Await(ctx context.Context, events []event.Event) (n int, err error) {
	if err := j.log.Usable(ctx); err != nil {
		return 0, err
	}
	bounded, cancel := j.log.Within(ctx)
	defer cancel()
	a := &await{journal: j, subjects: make([]uint64, len(events))}
	for i := range events {
		if !events[i].Op.Control() {
			a.subjects[i] = j.log.Subjects.Hash(j.log.Messages.Subject(&events[i]))
		}
	}
	n, err = a.wait(bounded)
	return n, j.log.Cause(ctx, err)
}

func (a *await) wait(ctx context.Context) (int, error) {
	a.journal.awaits.Add(1)
	defer a.journal.awaits.Add(-1)
	tick := time.NewTicker(awaitInterval)
	defer tick.Stop()
	for {
		if err := a.journal.log.Allowed(); err != nil {
			return 0, err
		}
		n, inTheWay := a.look()
		if n > 0 || len(a.subjects) == 0 {
			return n, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				a.journal.overtaken.Add(1)
				a.journal.log.Logger.Warn("history no longer waits for slow sinks; they may get a gap", slog.Any("sinks", inTheWay))
			}
			return 0, ctx.Err()
		}
	}
}

// look returns how many of the leading events have room, and the names of the cursors
// that are in the way of the first one.
func (a *await) look() (n int, inTheWay []string) {
	n = len(a.subjects)
	for _, c := range a.journal.openCursors() {
		passed, still := c.awaited()
		if still {
			continue
		}
		fits := a.room(passed)
		if fits == 0 && len(a.subjects) > 0 && a.standsStill(c, passed) {
			continue
		}
		if n = min(n, fits); fits == 0 {
			inTheWay = append(inTheWay, c.name)
		}
	}
	return n, inTheWay
}

// room is how many of the leading events push out nothing behind passed.
func (a *await) room(passed uint64) int {
	h := a.journal.log.Subjects
	before := make(map[uint64]int, len(a.subjects))
	for i, subject := range a.subjects {
		if subject == 0 {
			continue
		}
		n, known := before[subject]
		if !known {
			n = h.Unread(subject, passed)
		}
		if n >= (h.Limit+1)/2 {
			return i
		}
		before[subject] = n + 1
	}
	return len(a.subjects)
}

// standsStill reports whether a cursor in the way has not moved for too long.
func (a *await) standsStill(c *cursor, passed uint64) bool {
	still, news := c.standsStill(passed, a.journal.standstill)
	if news {
		a.journal.overtaken.Add(1)
		a.journal.log.Logger.Warn("history no longer waits for a stalled sink; it may get a gap", slog.String("sink", c.name))
	}
	return still
}

// stand is where a cursor was when it was in the way last.
type stand struct {
	at    uint64
	since time.Time
	// still: it was there for too long. Nothing waits for it while it is.
	still bool
}

// awaited is the sequence that the cursor has passed for good, and whether it stands
// still there. One in its snapshot needs nothing from before the end of that.
func (c *cursor) awaited() (passed uint64, still bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed = min(c.saved.Last, c.record.Last)
	if c.record.Snapshot {
		passed = max(passed, min(c.floor, c.next-1))
	}
	return passed, c.stands.still && c.stands.at == passed
}

// standsStill reports whether the cursor, which is in the way at passed, has been there
// for longer than patience, and whether that is news.
func (c *cursor) standsStill(passed uint64, patience time.Duration) (still, news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.stands
	if s.since.IsZero() || s.at != passed {
		*s = stand{at: passed, since: time.Now()}
	}
	still = time.Since(s.since) >= patience
	news = still && !s.still
	s.still = s.still || still
	return s.still, news
}
