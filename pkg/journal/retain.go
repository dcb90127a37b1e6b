package journal

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// What stays in the log, and for how long:
//
//   - the last event of each object; if it is terminal, until every sink that may return has passed
//     it and deletedRetention is over; of a forgotten object none;
//   - another terminal event until every sink that may return has passed it;
//   - what an open sink has not read;
//   - the newest historyPerObject events of an object, and of each kind of control event of a target.
//
// If the log is short of space, history goes that all sinks have passed. If that is not enough, the
// namespaces share the limit: those that hold the most lose their oldest superseded events, also
// unread ones, which a gap declares; and deletions that all sinks have passed lose their data. The last event of each object in a snapshot that a sink has not
// passed stays even then: a consumer takes an object without an event there for a deleted one.
//
// A temporary log keeps nothing for sinks that are not open, and may be smaller than the states of all
// objects. If all of the above is not enough, it keeps of what the sinks have passed the last event of each
// object, without data, and no deletions. So Append waits for sinks, and not for ever.

const (
	// compactEvery is the time between two looks without need.
	compactEvery = time.Minute
	// compactAfter is how many bytes are appended between two passes, and at least a sixteenth of
	// the log.
	compactAfter = 64 << 20
	// shortAt is the share of the limit, in percent, at which the log is short of space, and
	// shareTo what is left in use then.
	shortAt = 90
	shareTo = 80
	// shortPause and longPause bound the time between two attempts that make no space.
	shortPause = time.Second
	longPause  = 4 * time.Second
	// half and most are how much of a segment, in percent, may be left for it to be rewritten. So
	// compaction writes at most as much as it frees, or seven times that if space is short.
	half = 50
	most = 87
)

// compact removes what is no longer needed, until ctx ends.
func (j *Journal) compact(ctx context.Context) {
	ticker := time.NewTicker(compactEvery)
	defer ticker.Stop()
	var appended uint64
	var last time.Time
	pause := shortPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-j.shift:
		}
		stats := j.log.Writer.Stats()
		short := stats.Blocked > 0 || stats.Bytes > stats.Limit/100*shortAt
		enough := max(min(compactAfter, stats.Bytes/16), 1<<20)
		if short {
			enough = stats.Limit / 100
		}
		if grown := stats.Appended - appended; stats.Blocked == 0 && grown < uint64(enough) && time.Since(last) < time.Hour {
			continue
		}
		appended, last = stats.Appended, time.Now()
		if err := j.removeUnneeded(ctx, short); err != nil && ctx.Err() == nil && j.log.Monitor.Failure() == nil {
			j.compactFailed(err)
		}
		now := j.log.Writer.Stats()
		if now.Blocked == 0 {
			continue
		}
		wal.Signal(j.shift)
		if now.Bytes < stats.Bytes || now.Appended > stats.Appended {
			pause = shortPause
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
	}
}

func (j *Journal) compactFailed(err error) {
	if disk.IsFull(err) {
		j.config.Logger.Warn("journal not compacted; the disk is full", "err", err, "next", "free space on the disk of journal.dir",
			"runbook", display.AlertRunbook("InformdTargetBlocked"))
		return
	}
	j.config.Logger.Error("journal not compacted; the process ends, and the next one continues", "err", err)
	j.log.Monitor.Fail(err)
}

// removeUnneeded removes what is no longer needed. If the log is short of space, that includes history.
// It is for one goroutine at a time.
func (j *Journal) removeUnneeded(ctx context.Context, short bool) error {
	j.compacting.Lock()
	defer j.compacting.Unlock()
	var p *policy
	var stats wal.Stats
	for range 2 { // the sinks have gone on during the first
		var err error
		if p, err = j.policy(ctx, short); p == nil || err != nil {
			return err
		}
		if !short {
			return j.log.Compactor.Compact(p, half)
		}
		if err := j.log.Compactor.Compact(p, most); err != nil {
			return err
		}
		if stats = j.log.Writer.Stats(); stats.Bytes <= stats.Limit/100*shortAt || p.freed > stats.Limit/20 {
			return nil
		}
	}
	if err := j.share(p, stats.Limit/100*shareTo); err != nil {
		return err
	}
	percent := int64(most)
	if stats.Blocked > 0 {
		percent = 100
	}
	p.bare = true
	err := j.log.Compactor.Compact(p, percent)
	if p.emptied {
		j.emptied.Do(func() {
			j.config.Logger.Warn("memory journal short of space; last states of objects kept without data", "max_bytes", stats.Limit,
				"next", "raise journal.maxBytes: new sinks, filters and informd get lack these objects")
		})
	}
	j.report(p)
	return err
}

// report counts and logs the unread events that namespaces have lost.
func (j *Journal) report(p *policy) {
	if len(p.lost) == 0 {
		return
	}
	var count uint64
	largest := ""
	for namespace, n := range p.lost {
		if count += n; n > p.lost[largest] {
			largest = namespace
		}
	}
	j.config.Logger.Warn("journal nearly full; unread events of large namespaces removed",
		"largest", largest, "namespaces", len(p.lost), "count", count, "next", "raise journal.maxBytes; sinks that miss events get a gap",
		"runbook", display.AlertRunbook("InformdHistoryDropped"))
	j.mu.Lock()
	defer j.mu.Unlock()
	addDropped(j.dropped, p.lost)
}

// policy is what may go.
type policy struct {
	open, all uint64 // passed by all open sinks; by all that may return
	history   uint32
	old       int64 // terminal events from before it, in microseconds, may go
	emptied   bool  // objects have lost the data of their last event
	bare      bool  // the data of terminal events goes that all sinks have passed
	temporary bool  // and then those of a temporary log, and the data of other last events
	shown     []uint64
	freed     int64 // bytes that were removed

	// Of a log that is short of space:
	excess  map[string]int64    // bytes that a namespace is to lose
	lost    map[string]uint64   // unread events that were removed, by namespace
	dropped map[uint64]struct{} // their sequences, until they are removed
}

// policy is what may go now; nil while [Journal.passed] does not know. The positions that it counts on are durable.
func (j *Journal) policy(ctx context.Context, short bool) (p *policy, err error) {
	for _, c := range j.open() {
		if err := c.save(); err != nil && !disk.IsFull(err) {
			return nil, err
		}
	}
	p = &policy{
		history: uint32(min(j.config.HistoryPerObject, math.MaxUint32)),
		old:     time.Now().Add(-j.config.DeletedRetention).UnixMicro(), temporary: j.config.temporary,
	}
	var known bool
	if p.open, p.all, known = j.passed(); !known {
		return nil, nil
	}
	if short {
		p.history = 0
	}
	if short || p.all < p.open {
		if p.shown, err = j.shown(p.all); err != nil {
			return nil, err
		}
	}
	return p, j.log.Syncer.Sync(ctx)
}

// Fate implements [wal.Policy].
func (p *policy) Fate(e *segment.Entry, last wal.Last, namespace string) wal.Fate {
	ends, passed, is := e.Flags.Has(record.Ends), e.Seq <= p.open, last.IsEvent(e.Seq)
	switch {
	case is && !ends:
		if p.bare && p.temporary && e.Seq <= p.all {
			p.emptied = true
			return wal.DropData
		}
		return wal.Keep
	case is:
		switch {
		case e.Seq > p.all:
			return wal.Keep
		case e.Time < p.old, p.bare && p.temporary:
			return wal.Drop
		case p.bare:
			return wal.DropData
		}
		return wal.Keep
	case ends && e.Seq > p.all, p.shows(e.Seq):
		return wal.Keep
	case passed && last.Flags.Has(record.Ends) && last.Seq <= p.open, passed && last.Count-e.Count >= p.history:
		return wal.Drop
	case !ends && !e.Flags.Has(record.Control) && p.takesFrom(e, namespace):
		return wal.Drop
	}
	return wal.Keep
}

// shows reports whether a snapshot needs an event that a sink has not passed.
func (p *policy) shows(seq uint64) bool {
	_, found := slices.BinarySearch(p.shown, seq)
	return found
}

// takesFrom reports whether a superseded event goes for space.
func (p *policy) takesFrom(e *segment.Entry, namespace string) bool {
	if p.excess[namespace] <= 0 {
		return false
	}
	p.excess[namespace] -= int64(e.Size)
	if e.Seq > p.open {
		p.dropped[e.Seq] = struct{}{}
	}
	return true
}

// Dropped implements [wal.Policy].
func (p *policy) Dropped(e *segment.Entry, namespace string) {
	p.freed += int64(e.Size)
	if _, unread := p.dropped[e.Seq]; unread && e.Kind == record.Event {
		p.lost[cmp.Or(namespace, ClusterScoped)]++
	}
}

// usage is what a namespace holds, in bytes.
type usage struct{ all, states int64 }

// keeps is how much is left of a namespace at a level.
func (u usage) keeps(level int64) int64 { return min(u.all, max(level, u.states)) }

// share decides how much each namespace loses, so that goal bytes are left if possible.
func (j *Journal) share(p *policy, goal int64) error {
	p.excess, p.lost, p.dropped = map[string]int64{}, map[string]uint64{}, map[uint64]struct{}{}
	all := map[string]*usage{}
	var others, states int64
	err := j.log.History.Walk(func(e *segment.Entry, last wal.Last, namespace string) {
		if e.Kind != record.Event || e.Flags.Has(record.Control) {
			others += int64(e.Size)
			return
		}
		u := all[namespace]
		if u == nil {
			u = &usage{}
			all[namespace] = u
		}
		u.all += int64(e.Size)
		if last.Kind == 0 || p.shows(e.Seq) || last.IsEvent(e.Seq) || e.Flags.Has(record.Ends) {
			u.states += int64(e.Size)
			states += int64(e.Size)
		}
	})
	limit := goal / shareTo * 100
	goal = max(goal, (min(states, limit)+limit)/2) - others
	level := levelOf(slices.Collect(maps.Values(all)), goal)
	for namespace, u := range all {
		p.excess[namespace] = u.all - u.keeps(level)
	}
	return err
}

// levelOf returns the highest level at which all together keep at most goal bytes, 0 without one.
func levelOf(all []*usage, goal int64) int64 {
	var low, high int64
	for _, u := range all {
		high = max(high, u.all)
	}
	for low < high {
		middle := low + (high-low+1)/2
		var kept int64
		for _, u := range all {
			kept += u.keeps(middle)
		}
		if kept <= goal {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// shown returns the sequences, in order, of the events that a snapshot of a target needs which a sink
// has not passed: between a begin event and the synced event that follows, the last event of each
// object. What announces a state again may be of the snapshot or not, so it stays as well.
func (j *Journal) shown(passed uint64) (shown []uint64, err error) {
	spans, err := j.spans(passed)
	if err != nil || len(spans) == 0 {
		return nil, err
	}
	err = j.log.History.Walk(func(e *segment.Entry, last wal.Last, _ string) {
		if e.Kind != record.Event || e.Flags.Has(record.Control) || e.Seq <= passed || last.Kind == 0 {
			return
		}
		for _, s := range spans[last.Target] {
			switch {
			case e.Seq > s.to:
				shown = s.end(shown)
			case e.Seq < s.from:
			case e.Flags.Has(record.Again):
				shown = append(shown, e.Seq)
			default:
				s.lasts[e.Key] = e.Seq
			}
		}
	})
	for _, of := range spans {
		for _, s := range of {
			shown = s.end(shown)
		}
	}
	slices.Sort(shown)
	return shown, err
}

// span is a snapshot in the log: a range of sequences, both included, and the last event of each object.
type span struct {
	from, to uint64
	lasts    map[record.Hash]uint64
}

// end adds the last events of a snapshot that was passed.
func (s *span) end(shown []uint64) []uint64 {
	shown = slices.AppendSeq(shown, maps.Values(s.lasts))
	clear(s.lasts)
	return shown
}

// spans returns the snapshots of each target that end behind a sequence.
func (j *Journal) spans(passed uint64) (map[uint32][]*span, error) {
	all, begun := map[uint32][]*span{}, map[string]uint64{}
	add := func(target string, from, to uint64) {
		number := j.log.Keys.Target(target)
		all[number] = append(all[number], &span{from, to, map[record.Hash]uint64{}})
	}
	err := j.log.History.EachControl(func(e wal.Entry) error {
		target := e.Event.Target
		switch from, open := begun[target]; {
		case e.Event.Op == event.Begin && !open:
			begun[target] = e.Seq
		case e.Event.Op == event.Synced:
			delete(begun, target)
			if e.Seq > passed {
				add(target, from, e.Seq) // from 0 if the beginning is passed and gone
			}
		}
		return nil
	})
	for target, from := range begun { // in progress
		add(target, from, math.MaxUint64)
	}
	return all, err
}
