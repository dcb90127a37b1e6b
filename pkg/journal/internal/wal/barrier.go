package wal

import "time"

// Barrier keeps records from readers until they are durable: it has up to where the log is synced, the writes with hard
// events that are not, and the followers that have to have a copy of them. The log's lock guards it.
type Barrier struct {
	monitor   *Monitor
	segments  *segments
	keys      *Keys
	wake      chan struct{} // one signal: there is something to sync
	synced    place
	syncTo    place      // what the last sync covers, which may be in progress
	withheld  []withheld // in order
	followers followers
}

// withheld are writes with hard events that readers wait for, until everything before a place is synced and all followers
// have it.
type withheld struct {
	seq uint64 // the first hard event
	end place
	at  time.Time // of the last write
}

// withhold keeps an event, and those behind it, from readers until all that was written is durable. What no sync covers
// yet waits together.
func (b *Barrier) withhold(seq uint64) {
	end := b.segments.end()
	if n := len(b.withheld); n > 0 && b.syncTo.before(b.withheld[n-1].end) {
		b.withheld[n-1].end, b.withheld[n-1].at = end, time.Now()
	} else {
		b.withheld = append(b.withheld, withheld{seq, end, time.Now()})
	}
	Signal(b.wake)
}

// free lets readers have what they need not wait for any more.
func (b *Barrier) free() {
	for len(b.withheld) > 0 && !b.synced.before(b.withheld[0].end) && len(b.followers.behind(b.withheld[0].end)) == 0 {
		b.withheld = b.withheld[1:]
	}
	b.monitor.signal()
}

// harden makes the newest event a hard one, unless all is durable.
func (b *Barrier) harden() {
	if end := b.segments.end(); b.keys.last > 0 && (b.synced != end || len(b.followers.behind(end)) > 0) {
		b.withhold(b.keys.last)
		b.monitor.signal()
	}
}

// Readable is the newest sequence that may be read.
func (b *Barrier) Readable() uint64 {
	b.monitor.mu.Lock()
	defer b.monitor.mu.Unlock()
	return b.readable()
}

func (b *Barrier) readable() uint64 {
	if len(b.withheld) > 0 {
		return b.withheld[0].seq - 1
	}
	return b.keys.last
}
