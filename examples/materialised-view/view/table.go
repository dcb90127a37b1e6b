package view

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Key names an object.
type Key struct{ Cluster, Group, Resource, Namespace, Name string }

// Revision orders the events of an object. Epochs compare first: after etcd was restored
// to an older state, revisions begin again at lower numbers. Ordinals compare last: a
// namespace that stops to match makes an object leave at the revision of its last state.
type Revision struct{ Epoch, ResourceVersion, Ordinal uint64 }

func (r Revision) before(other Revision) bool {
	return cmp.Or(
		cmp.Compare(r.Epoch, other.Epoch),
		cmp.Compare(r.ResourceVersion, other.ResourceVersion),
		cmp.Compare(r.Ordinal, other.Ordinal),
	) < 0
}

// Object is the last state of an object.
type Object struct {
	UID string
	At  Revision
	// JSON is the object, nil if the event came without it.
	JSON json.RawMessage
}

// Limits of what a table keeps beside the objects.
const (
	maxSnapshots = 8      // of each target
	maxDeleted   = 10_000 // UIDs
)

// target is what one snapshot covers.
type target struct{ cluster, name string }

// targetsOf are the two that an object may belong to: its resource in all namespaces, or in
// one. A name is "<group or core>/<resource>[@<namespace>]".
func targetsOf(k Key) [2]target {
	name := cmp.Or(k.Group, "core") + "/" + k.Resource
	return [2]target{{k.Cluster, name}, {k.Cluster, name + "@" + k.Namespace}}
}

// snapshot is one whose beginning has come.
type snapshot struct {
	run      uint64
	began    uint64 // how many events were applied before
	complete bool
}

// row is an object of the table.
type row struct {
	Object
	// seen is the count of the last event that says that the object exists.
	seen uint64
}

// table is the view. It belongs to one goroutine.
type table struct {
	rows map[Key]*row
	// deleted has the revision of the end of objects, by UID; order is the order in which
	// they were deleted.
	deleted   map[string]Revision
	order     []string
	snapshots map[target][]snapshot
	// complete has the targets of which a snapshot has come to its end.
	complete map[target]bool
	applied  uint64
}

func newTable() *table {
	return &table{
		rows: make(map[Key]*row), deleted: make(map[string]Revision), snapshots: make(map[target][]snapshot), complete: make(map[target]bool),
	}
}

// apply takes the next event of the stream.
func (t *table) apply(e *event) {
	t.applied++
	switch e.op {
	case "begin":
		t.begin(e)
	case "synced":
		t.end(e)
	case "snapshot", "added", "modified", "entered":
		t.put(e)
	case "deleted", "left":
		t.remove(e)
	}
	// Of a gap nothing follows for the view: the last states and the deletions come.
}

// redelivered reports whether the event has a run that is not the run of an open snapshot:
// after a rewind, or from the dead letters. Newer events may have
// come before it.
func (t *table) redelivered(e *event) bool {
	if e.run == 0 {
		return false
	}
	for _, of := range targetsOf(e.key) {
		for _, s := range t.snapshots[of] {
			if s.run == e.run && !s.complete {
				return false
			}
		}
	}
	return true
}

// stale reports whether an event that is delivered again is older than the row of its
// key, or than the remembered deletion of its uid.
func (t *table) stale(e *event, old *row) bool {
	if !t.redelivered(e) {
		return false
	}
	ended, deleted := t.deleted[e.uid]
	return deleted && e.at.before(ended) || old != nil && e.at.before(old.At)
}

// put takes a state of an object.
func (t *table) put(e *event) {
	old := t.rows[e.key]
	if t.stale(e, old) {
		return
	}
	seen := t.applied
	if t.redelivered(e) { // says nothing about whether the object exists
		seen = 0
		if old != nil {
			seen = old.seen
		}
	}
	t.rows[e.key] = &row{Object{e.uid, e.at, e.object}, seen}
	if _, known := t.deleted[e.uid]; known {
		t.deleted[e.uid] = Revision{} // forgotten; the place in order stays
	}
}

// remove takes the end of an object.
func (t *table) remove(e *event) {
	old := t.rows[e.key]
	if old != nil && old.UID != e.uid {
		old = nil
	}
	if t.stale(e, old) {
		return
	}
	if old != nil {
		delete(t.rows, e.key)
	}
	if _, known := t.deleted[e.uid]; !known {
		t.order = append(t.order, e.uid)
	}
	t.deleted[e.uid] = e.at
	if len(t.order) > maxDeleted {
		delete(t.deleted, t.order[0])
		t.order = t.order[1:]
	}
}

// begin takes the beginning of a snapshot. One that was seen before is a repetition.
func (t *table) begin(e *event) {
	of := target{e.key.Cluster, e.target}
	snapshots := t.snapshots[of]
	for _, s := range snapshots {
		if s.run == e.run {
			return
		}
	}
	if len(snapshots) == maxSnapshots {
		snapshots = snapshots[1:]
	}
	t.snapshots[of] = append(slices.Clip(snapshots), snapshot{run: e.run, began: t.applied})
}

// end takes the end of a snapshot: every object that exists has had an event since its
// beginning. The others are gone.
func (t *table) end(e *event) {
	of := target{e.key.Cluster, e.target}
	for i := range t.snapshots[of] {
		s := &t.snapshots[of][i]
		if s.run != e.run || s.complete {
			continue
		}
		s.complete, t.complete[of] = true, true
		for key, r := range t.rows {
			if all := targetsOf(key); r.seen < s.began && slices.Contains(all[:], of) {
				delete(t.rows, key)
			}
		}
	}
}
