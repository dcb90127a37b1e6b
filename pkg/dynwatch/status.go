package dynwatch

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
	"github.com/informd/informd/pkg/event"
)

// State is the state of a target.
type State = status.State

// The states.
const (
	// Starting: nothing is known of the resource yet.
	Starting = status.Starting
	// Waiting: the API server does not serve the resource.
	Waiting = status.Waiting
	// Forbidden: the credentials do not allow to list or watch it.
	Forbidden = status.Forbidden
	// Syncing: the first list, or a reconcile after lost history, is under way.
	Syncing = status.Syncing
	// Live: the watch is open.
	Live = status.Live
	// Stale: the watch was lost and cannot be opened again at the moment.
	Stale = status.Stale
	// Degraded: requests fail in a way that does not look passing.
	Degraded = status.Degraded
	// Stopped: the loop has ended.
	Stopped = status.Stopped
)

// States lists every state of a target.
func States() []State {
	return []State{Starting, Waiting, Forbidden, Syncing, Live, Stale, Degraded, Stopped}
}

// TargetStatus describes a target at one moment.
type TargetStatus struct {
	// Name is the Target of its events. Version and Kind are empty until they are known. Namespace is
	// empty if the target watches all.
	Name                                      string
	Group, Version, Resource, Kind, Namespace string
	Mode                                      Mode
	State                                     State
	// Reason says why the state is what it is; empty when live.
	Reason string
	// Err is the error of the API server or of the connection that has led to the state, nil
	// if none has.
	Err error
	// MissingVerbs are the verbs, of "list" and "watch", that the credentials did not
	// allow on the resource when a request was refused. It is empty if nothing was
	// missing, if the API server does not say, and once the target is live.
	MissingVerbs []string
	// Started is when the target began: one that replaces another of the same name has another Started.
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
	// does not change only if the loop hangs.
	Beat time.Time
	// BlockedSince is since when the loop waits for free space in the log, zero if it does not.
	BlockedSince time.Time
	// Events counts what was appended, by operation; Rejected what could not be passed on; Unchanged
	// the states that change filters held back; Watches how often a watch was opened; Failures the
	// requests and watches that ended in an error. These and all other counts begin at 0 with Started.
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
	// was asked for: the object before was not known.
	Unpaired uint64
	// EventsPerSecond is the rate at which events were appended lately: with every
	// minute that has passed since, an event counts half as much. Of a younger target
	// it is the rate since its start.
	EventsPerSecond float64
	// Audits counts comparisons with the cluster that came to an outcome,
	// Divergences the objects that they found not to be in the stream as they are
	// there: it should stay 0. Audited is when the last one ended.
	Audits, Divergences uint64
	Audited             time.Time
}

// statusOf describes the target of a spec now.
func statusOf(of target.Spec, st *status.Status) TargetStatus {
	shown := st.Shown()
	s := TargetStatus{
		Name: of.Name(), Group: of.Group, Version: shown.Version, Resource: of.Resource, Kind: shown.Kind, Namespace: of.Namespace,
		Mode: modeOf(of), State: shown.State, Reason: shown.Reason, Err: shown.Err, MissingVerbs: shown.MissingVerbs,
		Started: st.Started, Since: shown.Since,
		Looked: st.Looked.Load(), Synced: st.Synced.Load(), Objects: int(st.Objects.Load()),
		ResourceVersion: st.ResourceVersion.Load(), Epoch: st.Epoch.Load(),
		Progress: st.Progress(), Beat: st.Beat(), BlockedSince: st.BlockedSince(),
		Rejected: st.Rejected.Load(), Unchanged: st.Unchanged.Load(), Watches: st.Watches.Load(), Failures: st.Failures.Load(),
		WatchTime: time.Duration(st.WatchTime.Load()), Stuck: st.Stuck.Load(), WalkRequests: st.WalkRequests.Load(),
		Gaps: shown.Gaps,
	}
	s.Lists, s.ListTime = st.Lists.Total()
	s.Unpaired = st.UnpairedTotal()
	s.Audits, s.Divergences, s.Audited = st.Audits()
	s.Events, s.EventsPerSecond = st.Events()
	return s
}
