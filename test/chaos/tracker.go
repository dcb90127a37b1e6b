package chaos

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Tracker follows, live, what a sink still has to receive. It only measures: the
// verdict is the checker's. All methods are safe for concurrent use.
type Tracker struct {
	targets map[string]bool
	rules   map[string]rule // of the targets that are not plain

	mu        sync.Mutex
	pending   map[string]*backlog // by UID
	delivered map[string]uint64   // the newest revision by UID
	floors    map[string]uint64   // by target: up to there a list or a gap stands for what is missing
	swept     map[string]bool     // targets whose next snapshot stands for deletions, too
	standing  map[string]*awaited // by UID
	delays    []Delay
}

type backlog struct {
	target    string
	revisions []Revision
}

// Delay is how long a revision took from etcd to a sink.
type Delay struct {
	At  time.Time // of the delivery
	For time.Duration
	// Tenant: it is of the hostile tenant's namespace.
	Tenant bool
}

// NewTracker follows the targets.
func NewTracker(targets map[string]bool) *Tracker {
	return &Tracker{
		targets: targets, rules: rulesOf(selectiveKinds()), pending: make(map[string]*backlog), standing: make(map[string]*awaited),
		delivered: make(map[string]uint64), floors: make(map[string]uint64), swept: make(map[string]bool),
	}
}

// Expect notes a revision that is to come.
func (t *Tracker) Expect(o *Object, r Revision) {
	if !t.targets[o.Target] || o.uncarriable() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.RV <= t.delivered[o.UID] {
		return
	}
	b := t.pending[o.UID]
	if b == nil {
		b = &backlog{target: o.Target}
		t.pending[o.UID] = b
	}
	b.revisions = append(b.revisions, r)
	t.forgive(o.UID, b)
}

// Receive notes a delivery.
func (t *Tracker) Receive(d *Delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch d.Op {
	case opSynced:
		t.raise(d.Target, d.RV)
		if t.swept[d.Target] {
			t.drop(d.Target)
		}
	case opGap:
		switch d.Reason {
		case reasonJournal:
			t.swept[d.Target] = true
		case reasonSelection:
			t.drop(d.Target)
		}
		t.raise(d.Target, d.ToRV)
	case opBegin:
	case opLost: // the next snapshot stands for all that no sink read
		clear(t.floors)
		for target := range t.targets {
			t.swept[target] = true
		}
	default:
		t.received(d)
	}
}

func (t *Tracker) received(d *Delivery) {
	if _, ok := t.rules[d.Target]; ok {
		t.stands(d)
		return
	}
	t.delivered[d.UID] = max(t.delivered[d.UID], d.RV)
	b := t.pending[d.UID]
	if b == nil {
		return
	}
	rest := b.revisions[:0]
	for _, r := range b.revisions {
		switch {
		case r.RV > d.RV:
			rest = append(rest, r)
		case r.RV == d.RV && !d.Replay:
			t.delays = append(t.delays, Delay{At: d.At, For: d.At.Sub(r.Seen), Tenant: d.Namespace == tenantNamespace()})
		}
	}
	if b.revisions = rest; len(rest) == 0 {
		delete(t.pending, d.UID)
	}
}

// raise notes that up to rv a list, or a gap, stands for what is missing.
func (t *Tracker) raise(target string, rv uint64) {
	if rv <= t.floors[target] {
		return
	}
	t.floors[target] = rv
	for uid, b := range t.pending {
		if b.target == target {
			t.forgive(uid, b)
		}
	}
}

// forgive drops what nobody will be told of: an object that was never announced
// and is gone, or that consumers drop as a snapshot does not have it.
func (t *Tracker) forgive(uid string, b *backlog) {
	last := b.revisions[len(b.revisions)-1]
	if last.Deleted && last.RV <= t.floors[b.target] && (t.delivered[uid] == 0 || t.swept[b.target]) {
		delete(t.pending, uid)
	}
}

// Restored forgets what a restore of etcd took back.
func (t *Tracker) Restored(revision uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid, rv := range t.delivered {
		t.delivered[uid] = min(rv, revision)
	}
	for target, rv := range t.floors {
		t.floors[target] = min(rv, revision)
	}
	for uid, b := range t.pending {
		b.revisions = slices.DeleteFunc(b.revisions, func(r Revision) bool { return r.RV > revision })
		if len(b.revisions) == 0 {
			delete(t.pending, uid)
		}
	}
}

// Lag returns how many objects have something undelivered, and since when.
func (t *Tracker) Lag() (objects int, oldest time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	objects = len(t.pending)
	for _, b := range t.pending {
		if seen := b.revisions[0].Seen; oldest.IsZero() || seen.Before(oldest) {
			oldest = seen
		}
	}
	for _, a := range t.standing {
		if a.since.IsZero() {
			continue
		}
		objects++
		if oldest.IsZero() || a.since.Before(oldest) {
			oldest = a.since
		}
	}
	return objects, oldest
}

// Behind returns the targets that lack something from before a time, and since when.
func (t *Tracker) Behind(before time.Time) map[string]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	behind := make(map[string]time.Time)
	note := func(target string, seen time.Time) {
		if since, ok := behind[target]; !seen.IsZero() && seen.Before(before) && (!ok || seen.Before(since)) {
			behind[target] = seen
		}
	}
	for _, b := range t.pending {
		note(b.target, b.revisions[0].Seen)
	}
	for _, a := range t.standing {
		note(a.target, a.since)
	}
	return behind
}

// Delays returns the delays of live deliveries.
func (t *Tracker) Delays() []Delay {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.delays)
}

// Some names a few of the revisions that are missing, as an example.
func (t *Tracker) Some(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var some []string
	for uid, b := range t.pending {
		if len(some) == n {
			break
		}
		some = append(some, fmt.Sprintf("%s %s from revision %d", b.target, uid, b.revisions[0].RV))
	}
	for uid, a := range t.standing {
		if len(some) < n && !a.since.IsZero() {
			some = append(some, fmt.Sprintf("%s %s at revision %d (selected: %t), not %d (%t)", a.target, uid, a.want.RV, a.want.In, a.got.RV, a.got.In))
		}
	}
	return some
}
