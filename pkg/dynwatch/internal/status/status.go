package status

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// State is the state of a target.
type State string

// The states. Package dynwatch documents them.
const (
	Starting  State = "starting"
	Waiting   State = "waiting"
	Forbidden State = "forbidden"
	Syncing   State = "syncing"
	Live      State = "live"
	Stale     State = "stale"
	Degraded  State = "degraded"
	Stopped   State = "stopped"
)

// Shown are the members of a status that change rarely.
type Shown struct {
	Version, Kind string
	State         State
	Reason        string
	Err           error // that has led to the state, if one has
	MissingVerbs  []string
	// Since is when the state was entered.
	Since time.Time
	Gaps  map[string]uint64
}

// Status is the part of a target that other goroutines may read while it runs.
type Status struct {
	// Started is when the target began.
	Started time.Time
	// Objects is how many objects the index has, ResourceVersion the position of the watch.
	Objects, ResourceVersion, Epoch atomic.Uint64
	// Looked: it is known whether the resource can be watched. Synced: the first list is
	// complete.
	Looked, Synced atomic.Bool
	// Gone: the resource has not been served for long enough, and nothing is left to
	// emit of its objects.
	Gone atomic.Bool
	// The counters are described at dynwatch.TargetStatus.
	Rejected, Watches, Failures, Stuck, WalkRequests, Unchanged atomic.Uint64
	Lists                                                       listwatch.ListTimes
	WatchTime                                                   atomic.Int64 // nanoseconds

	progress, beat                atomic.Int64 // Unix nanoseconds
	blocked                       atomic.Int64 // Unix nanoseconds, since when; 0: it is not
	unpaired, audits, divergences atomic.Uint64
	lastAudit                     atomic.Int64 // Unix nanoseconds
	// ops are all operations, and events the number of events of each.
	ops    []event.Op
	events []atomic.Uint64
	rate   *rate

	mu    sync.Mutex
	shown Shown
}

// New returns the status of a target that starts now.
func New(version string) *Status {
	ops := event.Ops()
	now := time.Now()
	st := &Status{Started: now, ops: ops, events: make([]atomic.Uint64, len(ops)), rate: newRate(now)}
	st.shown = Shown{Version: version, State: Starting, Since: now}
	st.beat.Store(now.UnixNano())
	return st
}

// Set changes the state.
func (st *Status) Set(state State, reason string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.shown.State != state {
		st.shown.Since = time.Now()
	}
	st.shown.State, st.shown.Reason, st.shown.Err = state, display.Reason(reason), nil
	if state == Live {
		st.shown.MissingVerbs = nil // it has listed and watches
	}
}

// SetError notes the error that has led to the state.
func (st *Status) SetError(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.shown.Err = err
}

// SetMissing notes what the credentials lack, and reports whether that is news.
func (st *Status) SetMissing(verbs []string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	news := len(verbs) > 0 && !slices.Equal(verbs, st.shown.MissingVerbs)
	st.shown.MissingVerbs = verbs
	return news
}

// SetResolved notes the version and kind that are watched.
func (st *Status) SetResolved(r catalog.Resolved) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.shown.Version, st.shown.Kind = r.GVR.Version, r.Kind
}

// Alive notes an action of the loop.
func (st *Status) Alive() { st.beat.Store(time.Now().UnixNano()) }

// Progressed notes an answer or a frame of the API server.
func (st *Status) Progressed() {
	now := time.Now().UnixNano()
	st.progress.Store(now)
	st.beat.Store(now)
}

// Appended counts events.
func (st *Status) Appended(events []event.Event) {
	for i := range events {
		if n := slices.Index(st.ops, events[i].Op); n >= 0 {
			st.events[n].Add(1)
		}
		if gap := events[i].Gap; gap != nil {
			st.declared(gap.Reason)
		}
	}
	st.rate.add(len(events), time.Now())
}

// declared counts a gap event.
func (st *Status) declared(reason string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.shown.Gaps == nil {
		st.shown.Gaps = make(map[string]uint64)
	}
	st.shown.Gaps[reason]++
}

// AuditDone counts an audit.
func (st *Status) AuditDone(divergences int) {
	st.audits.Add(1)
	st.divergences.Add(uint64(max(divergences, 0)))
	st.lastAudit.Store(time.Now().UnixNano())
}

// Block says that the target waits for the log from now on.
func (st *Status) Block() { st.blocked.Store(time.Now().UnixNano()) }

// Unblock says that it waits no longer, and returns how long it has.
func (st *Status) Unblock() time.Duration { return time.Since(time.Unix(0, st.blocked.Swap(0))) }

// Stored says how many objects the index has.
func (st *Status) Stored(objects int) { st.Objects.Store(uint64(objects)) }

// Unpaired counts an event whose object before is not known, and reports the first one.
func (st *Status) Unpaired() bool { return st.unpaired.Add(1) == 1 }

// Shown returns a copy of the members that change rarely.
func (st *Status) Shown() Shown {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.shown
	s.MissingVerbs, s.Gaps = slices.Clone(s.MissingVerbs), maps.Clone(s.Gaps)
	return s
}

// Progress is the time of the last answer or frame of the API server, zero if there was
// none.
func (st *Status) Progress() time.Time { return at(&st.progress) }

// Beat is the time of the last action of the loop.
func (st *Status) Beat() time.Time { return at(&st.beat) }

// BlockedSince is since when the target waits for the log, zero if it does not.
func (st *Status) BlockedSince() time.Time { return at(&st.blocked) }

// Audits returns the number of audits, the divergences that they found, and the end of the
// last one.
func (st *Status) Audits() (audits, divergences uint64, last time.Time) {
	return st.audits.Load(), st.divergences.Load(), at(&st.lastAudit)
}

// UnpairedTotal returns the number of events whose object before is not known.
func (st *Status) UnpairedTotal() uint64 { return st.unpaired.Load() }

// Events returns the number of events by operation, and their rate.
func (st *Status) Events() (events map[event.Op]uint64, perSecond float64) {
	events = make(map[event.Op]uint64, len(st.events))
	for i, op := range st.ops {
		events[op] = st.events[i].Load()
	}
	return events, st.rate.perSecond(time.Now())
}

// at is the time that a counter holds, zero for 0.
func at(nanoseconds *atomic.Int64) time.Time {
	if n := nanoseconds.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}
