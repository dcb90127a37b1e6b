package dynwatch

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/rate"
	"github.com/informd/informd/pkg/event"
)

// State is the state of a target.
type State string

// The states.
const (
	// Starting: nothing is known of the resource yet.
	Starting State = "starting"
	// Waiting: the API server does not serve the resource.
	Waiting State = "waiting"
	// Forbidden: the credentials do not allow to list or watch it.
	Forbidden State = "forbidden"
	// Syncing: the first list, or a reconcile after lost history, is under way.
	Syncing State = "syncing"
	// Live: the watch is open.
	Live State = "live"
	// Stale: the watch was lost and cannot be opened again at the moment.
	Stale State = "stale"
	// Degraded: requests fail in a way that does not look passing.
	Degraded State = "degraded"
	// Stopped: the loop has ended.
	Stopped State = "stopped"
)

// States lists every state of a target.
func States() []State {
	return []State{Starting, Waiting, Forbidden, Syncing, Live, Stale, Degraded, Stopped}
}

// TargetStatus describes a target at one moment.
type TargetStatus struct {
	Name                                      string
	Group, Version, Resource, Kind, Namespace string
	Mode                                      Mode
	State                                     State
	// Reason says why the state is what it is; empty when live.
	Reason string
	// MissingVerbs are the verbs, of "list" and "watch", that the credentials did not
	// allow on the resource when the target was started. It is empty if nothing was
	// missing, if the API server does not say, and once the target is live.
	MissingVerbs []string
	// Started is when the target began. Its counts are 0 then: a target that replaces one of
	// the same name has another Started.
	Started time.Time
	// Since is when the state was entered.
	Since time.Time
	// Looked: it is known whether the resource is served and fit to be watched,
	// or that the credentials do not allow to find out.
	Looked bool
	// Synced: the first list is complete.
	Synced bool
	// Objects is how many objects are known to exist.
	Objects int
	// ResourceVersion is the revision up to which everything was appended.
	ResourceVersion uint64
	// Epoch counts rollbacks of the API server's storage.
	Epoch uint64
	// Progress is the time of the last answer or frame of the API server, bookmarks included;
	// zero if there was none.
	Progress time.Time
	// Beat is the time of the last action of the loop, including a backoff; it
	// does not change only if the loop hangs. Blocked: the loop waits for free space in the log.
	Beat    time.Time
	Blocked bool
	// BlockedSince is since when, zero if it is not blocked.
	BlockedSince time.Time
	// Events counts what was appended, by operation; Rejected what could not be
	// passed on; Unchanged the states that change gates held back; Watches how often a watch was opened; Failures the requests and
	// watches that ended in an error.
	Events                                 map[event.Op]uint64
	Rejected, Unchanged, Watches, Failures uint64
	// Lists counts the complete lists of the target, ListTime is what they took in all, waits
	// for the log included. WatchTime is what the watches took that have ended.
	Lists               uint64
	ListTime, WatchTime time.Duration
	// Stuck counts watches that did not reach, in time, a revision that the API server had
	// announced.
	Stuck uint64
	// Gaps counts the gap events of the target, by reason.
	Gaps map[string]uint64
	// WalkRequests counts requests for old revisions, which recover lost history.
	WalkRequests uint64
	// Unpaired counts the modified events that do not say what has changed although it
	// was asked for: the object before was not known. StateBytes is what the states take
	// in memory that are kept for that, where the log does not keep them.
	Unpaired, StateBytes uint64
	// EventsPerSecond is the rate at which events were appended lately: with every
	// minute that has passed since, an event counts half as much. Of a younger target
	// it is the rate since its start.
	EventsPerSecond float64
	// Audits counts comparisons with the cluster that came to an outcome,
	// Divergences the objects that they found not to be in the stream as they are
	// there: it should stay 0. Audited is when the last one ended.
	Audits, Divergences uint64
	Audited             time.Time
	// Mismatched counts objects that an API server showed otherwise than etcd holds them,
	// Mismatches are the last of them.
	Mismatched uint64
	Mismatches []Mismatch
}

// status is the part of a target that others may look at while it runs.
type status struct {
	objects, rv, epoch atomic.Uint64
	progress, beat     atomic.Int64 // Unix nanoseconds
	blocked            atomic.Int64 // Unix nanoseconds, since when; 0: it is not
	looked, synced     atomic.Bool
	// gone: the resource has not been served for long enough, and nothing is left to
	// tell of its objects.
	gone                        atomic.Bool
	rejected, watches, failures atomic.Uint64
	stuck, walkRequests         atomic.Uint64
	lists                       listwatch.ListTimes
	watchTime                   atomic.Int64 // nanoseconds
	unchanged                   atomic.Uint64
	unpaired, stateBytes        atomic.Uint64
	audits, divergences         atomic.Uint64
	lastAudit                   atomic.Int64 // Unix nanoseconds
	// ops are all operations, and events the number of events of each.
	ops    []event.Op
	events []atomic.Uint64
	rate   *rate.Rate

	mu    sync.Mutex
	shown TargetStatus // the fields that change rarely
}

func newStatus(s spec) *status {
	ops := event.Ops()
	now := time.Now()
	st := &status{ops: ops, events: make([]atomic.Uint64, len(ops)), rate: rate.New(now)}
	st.shown = TargetStatus{
		Name: s.name(), Group: s.group, Version: s.version, Resource: s.resource, Namespace: s.namespace,
		Mode: s.mode, State: Starting, Started: now, Since: now,
	}
	st.beat.Store(now.UnixNano())
	return st
}

// set changes the state.
func (st *status) set(state State, reason string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.shown.State != state {
		st.shown.Since = time.Now()
	}
	st.shown.State, st.shown.Reason = state, display.Reason(reason)
	if state == Live {
		st.shown.MissingVerbs = nil // it has listed and watches
	}
}

// setMissing notes what the credentials lack, and reports whether they lack
// anything. A target that is live by now proves an answer wrong, or outdated.
func (st *status) setMissing(verbs []string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.shown.State == Live {
		return false
	}
	st.shown.MissingVerbs = verbs
	return len(verbs) > 0
}

func (st *status) setResolved(r catalog.Resolved) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.shown.Version, st.shown.Kind = r.GVR.Version, r.Kind
}

func (st *status) beatNow() { st.beat.Store(time.Now().UnixNano()) }

func (st *status) progressNow() {
	now := time.Now().UnixNano()
	st.progress.Store(now)
	st.beat.Store(now)
}

// appended counts events.
func (st *status) appended(events []event.Event) {
	for i := range events {
		if n := slices.Index(st.ops, events[i].Op); n >= 0 {
			st.events[n].Add(1)
		}
		if gap := events[i].Gap; gap != nil {
			st.declared(gap.Reason)
		}
	}
	st.rate.Add(len(events), time.Now())
}

// declared counts a gap event.
func (st *status) declared(reason string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.shown.Gaps == nil {
		st.shown.Gaps = make(map[string]uint64)
	}
	st.shown.Gaps[reason]++
}

// mismatched takes note of a conviction.
func (st *status) mismatched(m Mismatch) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.shown.Mismatched++
	if len(st.shown.Mismatches) >= keptMismatches {
		st.shown.Mismatches = slices.Delete(st.shown.Mismatches, 0, 1)
	}
	st.shown.Mismatches = append(st.shown.Mismatches, m)
}

// audited counts an audit.
func (st *status) audited(divergences int) {
	st.audits.Add(1)
	st.divergences.Add(uint64(max(divergences, 0)))
	st.lastAudit.Store(time.Now().UnixNano())
}

// block says that the target waits for the log from now on.
func (st *status) block() { st.blocked.Store(time.Now().UnixNano()) }

// unblock says that it waits no longer.
func (st *status) unblock() { st.blocked.Store(0) }

// Stored says how many objects the index has, and the bytes of their kept states.
func (st *status) Stored(objects int, stateBytes uint64) {
	st.objects.Store(uint64(objects))
	st.stateBytes.Store(stateBytes)
}

// Unpaired counts an event whose object before is not known, and reports the first one.
func (st *status) Unpaired() bool { return st.unpaired.Add(1) == 1 }

func (st *status) snapshot() TargetStatus {
	st.mu.Lock()
	s := st.shown
	s.MissingVerbs, s.Mismatches, s.Gaps = slices.Clone(s.MissingVerbs), slices.Clone(s.Mismatches), maps.Clone(s.Gaps)
	st.mu.Unlock()
	s.Objects = int(st.objects.Load())
	s.ResourceVersion, s.Epoch = st.rv.Load(), st.epoch.Load()
	if p := st.progress.Load(); p != 0 {
		s.Progress = time.Unix(0, p)
	}
	s.Beat, s.Synced = time.Unix(0, st.beat.Load()), st.synced.Load()
	if since := st.blocked.Load(); since != 0 {
		s.Blocked, s.BlockedSince = true, time.Unix(0, since)
	}
	s.Looked = st.looked.Load()
	s.Rejected, s.Watches, s.Failures = st.rejected.Load(), st.watches.Load(), st.failures.Load()
	s.Lists, s.ListTime = st.lists.Total()
	s.WatchTime = time.Duration(st.watchTime.Load())
	s.Unchanged, s.Stuck, s.WalkRequests = st.unchanged.Load(), st.stuck.Load(), st.walkRequests.Load()
	s.Unpaired, s.StateBytes = st.unpaired.Load(), st.stateBytes.Load()
	s.Audits, s.Divergences = st.audits.Load(), st.divergences.Load()
	if at := st.lastAudit.Load(); at != 0 {
		s.Audited = time.Unix(0, at)
	}
	s.EventsPerSecond = st.rate.PerSecond(time.Now())
	s.Events = make(map[event.Op]uint64, len(st.events))
	for i, op := range st.ops {
		s.Events[op] = st.events[i].Load()
	}
	return s
}
