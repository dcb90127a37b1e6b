package listwatch

import (
	"errors"
	"fmt"
	"time"
)

// Timing holds the periods of a loop that keeps a watch open.
type Timing struct {
	// Silence is how long a watch may say nothing, not even a bookmark, before
	// it is taken for dead. The API server sends a bookmark about every minute; a watch
	// that has had one is taken for dead after two thirds of it.
	Silence time.Duration
	// Reach is how long a watch may stay behind a revision that the API server has
	// announced. It sends a bookmark about every minute.
	Reach time.Duration
	// Lag is how long the watch cache of an API server may take for what etcd has.
	Lag time.Duration
	// Tick is how often an idle loop looks at the clock.
	Tick time.Duration
	// Backoff is the first pause after a failure; it doubles up to BackoffCap.
	Backoff, BackoffCap time.Duration
	// WaitingCap bounds the pause while the resource is not served, DeniedCap while the
	// credentials do not allow the watch.
	WaitingCap, DeniedCap time.Duration
}

// Closed returns the reason why a watch that began at a time is closed by the server, nil if the
// next one should follow at once.
func (tm *Timing) Closed(began time.Time) error {
	if time.Since(began) < tm.Tick {
		return ErrEnded
	}
	return nil
}

// Reasons why a watch is closed.
var (
	// ErrSilent: neither an event nor a bookmark came for too long.
	ErrSilent = errors.New("the watch received nothing for too long")
	// ErrEnded: the watch ended so soon that the next one must not follow at once.
	ErrEnded = errors.New("the watch ended soon after its start")
	// ErrStuck: the watch did not reach a known revision in time.
	ErrStuck = errors.New("the watch is behind and receives nothing")
)

// MaxLenience bounds how often the time to reach the head is doubled. API servers without
// consistent lists from the cache learn of new revisions of quiet resources from etcd's
// progress notifications, every 10 minutes by default.
const MaxLenience = 3

// Progress is how far the watches of a resource have come.
type Progress struct {
	// Head is a revision that the store is known to have reached and the watch has not,
	// 0 if there is none.
	Head uint64
	// seen is the cursor at the last tick; Waited is for how long a watch was open since
	// then without moving, ticked when that was last counted.
	seen   uint64
	Waited time.Duration
	ticked time.Time
	// Stuck counts watches in a row that did not reach the head in time; the last one was
	// opened at a revision that it has to leave by itself.
	Stuck   int
	opening uint64
	// events: the watch has brought one.
	events bool
	// began is when the watch was opened, ended: the server has ended or refused the one before, brief: soon
	// after its start. missing is the position at which a list had what no watch has brought.
	began        time.Time
	ended, brief bool
	missing      uint64
	// Lenience counts how often the time to reach the head has been doubled, as nothing was
	// missing.
	Lenience int
	// asked is when the head was asked for, at the opening or later. late: a bookmark that came
	// later than a watch cache lags was still behind the head.
	asked time.Time
	late  bool
}

// Opened notes that a watch is open while the store is at head.
func (p *Progress) Opened(cursor, head uint64) {
	now := time.Now()
	p.began, p.ticked, p.asked, p.opening, p.events, p.late = now, now, now, cursor, false, false
	p.Expect(cursor, head)
}

// Ended notes that the server has ended the watch, or refused it, and has the history from its position.
func (p *Progress) Ended(tick time.Duration) { p.ended, p.brief = true, time.Since(p.began) < tick }

// Again notes that another watch is about to be opened, while the store is at head. If the server
// has ended the one before, the pause since then counts, up to most: a server that ends each
// watch brings nothing either. Again reports whether the watches have had the time to reach the head.
func (p *Progress) Again(cursor, head uint64, reach, most time.Duration) (late bool) {
	if !p.ended {
		p.brief = false
		return false
	}
	p.ended = false
	p.Tick(cursor, most)
	p.Expect(cursor, head)
	return p.Head > cursor && p.Left(reach) <= 0
}

// Left is how long the watches may still take to reach the head.
func (p *Progress) Left(reach time.Duration) time.Duration { return reach<<p.Lenience - p.Waited }

// Compared notes whether a list of now equals what the watches have brought up to the cursor.
func (p *Progress) Compared(cursor uint64, same bool) {
	if p.Waited, p.missing = 0, cursor; same {
		p.missing = 0
	}
}

// Misses reports whether a list had what the watches have not brought up to the cursor.
func (p *Progress) Misses(cursor uint64) bool { return p.missing == cursor && cursor != 0 }

// EndedWithout reports whether the server has ended a watch that had to bring what it misses.
func (p *Progress) EndedWithout(cursor uint64) bool { return p.ended && p.Misses(cursor) }

// Unproven reports whether the watch may end at once as the one before it: it has brought nothing
// and is not open for long.
func (p *Progress) Unproven(cursor uint64, tick time.Duration) bool {
	return p.brief && cursor == p.opening && time.Since(p.began) < tick
}

// Expect has the watch reach a revision. The time for it begins if it had none to reach.
func (p *Progress) Expect(cursor, head uint64) {
	if head <= cursor {
		return
	}
	if p.Head <= cursor {
		p.Waited = 0
	}
	p.Head = max(p.Head, head)
}

// Reached reports whether the watch has reached what it must, and takes note of it.
func (p *Progress) Reached(cursor uint64) bool {
	if p.Head != 0 && cursor < p.Head {
		return false
	}
	p.Head = 0
	if cursor <= p.opening {
		return true
	}
	if p.Stuck > 0 && !p.events { // the watch before it was not stuck: its bookmarks were late
		p.Lenience = min(p.Lenience+1, MaxLenience)
	}
	p.Stuck = 0
	return true
}

// Event notes that the watch has brought an event.
func (p *Progress) Event() { p.events = true }

// Tick counts the time without a move since the last tick, of which most can be of the
// API server: the rest the loop was busy otherwise.
func (p *Progress) Tick(cursor uint64, most time.Duration) {
	now := time.Now()
	if cursor != p.seen {
		p.seen, p.Waited, p.asked, p.late = cursor, 0, time.Time{}, false
	} else {
		p.Waited += min(now.Sub(p.ticked), most)
	}
	p.ticked = now
}

// Bookmark notes a bookmark that does not move the watch. Lag is how long a watch cache may take.
func (p *Progress) Bookmark(cursor uint64, lag time.Duration) {
	p.late = p.late || p.Head > cursor && !p.asked.IsZero() && time.Since(p.asked) >= lag
}

// Asked notes that the head was asked for.
func (p *Progress) Asked() { p.asked, p.late, p.Waited = time.Now(), false, 0 }

// Late reports whether a bookmark proves that the watch is stuck. It proves nothing where
// bookmarks were late before.
func (p *Progress) Late() bool { return p.late && p.Lenience == 0 }

// Reason says why the resource is stale.
func (p *Progress) Reason(cursor uint64) string {
	if p.Head == 0 {
		return fmt.Sprintf("the watch is behind: informd reads lists instead, the last one at revision %d", cursor)
	}
	return fmt.Sprintf("the watch is behind: the watch is at revision %d, and the API server announced %d", cursor, p.Head)
}
