package chaos

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"time"
)

// Hash identifies an object's normalised content.
type Hash [16]byte

// Revision is one state of an object in etcd, or its end.
type Revision struct {
	RV      uint64
	Deleted bool
	Hash    Hash // of the content; for an end, of the last content
	Gate    Hash // what a change filter compares
	// Matches: the labels are those that a selector asks for; of a Namespace, that its
	// objects are selected.
	Matches bool
	// Epoch counts the restores of etcd from an older copy that came before.
	Epoch int
	// Undone: a restore took this revision back.
	Undone bool
	// Seen is when etcd told of it.
	Seen time.Time
}

// Object is the life of one UID.
type Object struct {
	Target, Namespace, Name, UID string
	Revisions                    []Revision // in etcd's order, undone ones included
}

// key is what a name means to a consumer: the object of today under that name.
func (o *Object) key() string { return objectKey(o.Target, o.Namespace, o.Name) }

func objectKey(target, namespace, name string) string { return target + "/" + namespace + "/" + name }

// last returns the object's last surviving revision; false if a restore took the
// whole object back.
func (o *Object) last() (Revision, bool) {
	for _, r := range slices.Backward(o.Revisions) {
		if !r.Undone {
			return r, true
		}
	}
	return Revision{}, false
}

// settled returns the object's last surviving revision that is due; false if it
// has none.
func (o *Object) settled(t *Truth) (Revision, bool) {
	for _, r := range slices.Backward(o.Revisions) {
		if !r.Undone && t.due(r) {
			return r, true
		}
	}
	return Revision{}, false
}

// supersededBy reports whether a surviving revision up to rv came after r.
func (o *Object) supersededBy(r Revision, rv uint64) bool {
	return slices.ContainsFunc(o.Revisions, func(x Revision) bool {
		return !x.Undone && x.Epoch >= r.Epoch && x.RV > r.RV && x.RV <= rv
	})
}

// bornAndDeadIn reports whether the object's whole life lies in (from, to].
func (o *Object) bornAndDeadIn(from, to uint64) bool {
	last, ok := o.last()
	return ok && last.Deleted && o.Revisions[0].RV > from && last.RV <= to
}

// Truth is what happened in etcd.
type Truth struct {
	Objects map[string]*Object // by UID
	// Rules has, by target, what informd's entry says.
	Rules map[string]rule
	// Rejected has the revisions that dead letters of the source name.
	Rejected map[rejected]bool
	// Served has, by target, the revisions at which its custom resource definition
	// was created. A target without an entry was always served.
	Served map[string][]uint64
	// Head is etcd's last revision.
	Head uint64
	// Settled is the revision up to which everything had its time to arrive: what
	// came later may or may not have been delivered.
	Settled uint64
}

// due reports whether a revision had its time to arrive.
func (t *Truth) due(r Revision) bool { return r.Undone || r.RV <= t.Settled }

// servedSince returns the revision at which the target's current life began, as
// of rv: 0 for what was always there.
func (t *Truth) servedSince(target string, rv uint64) uint64 {
	var since uint64
	for _, born := range t.Served[target] {
		if born <= rv {
			since = max(since, born)
		}
	}
	return since
}

// sorted returns the objects in an order that does not change from run to run.
func (t *Truth) sorted() []*Object {
	all := make([]*Object, 0, len(t.Objects))
	for _, o := range t.Objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *Object) int {
		return cmp.Or(cmp.Compare(a.Revisions[0].RV, b.Revisions[0].RV), cmp.Compare(a.UID, b.UID))
	})
	return all
}

// Delivery is one event as a consumer of a sink received it.
type Delivery struct {
	ID, Op                       string
	Target, Namespace, Name, UID string
	RV, PrevRV, Ordinal          uint64
	FromRV, ToRV, Trimmed        uint64 // of a gap
	Reason, Recovered            string // of a gap
	Replay                       bool
	Final                        bool   // of a deletion: the object is surely its last state
	HasObject                    bool   // Hash, Gate and BodyRV count
	Hash                         Hash   // of the object's normalised content
	Gate                         Hash   // what a change filter compares
	Cause                        uint64 // of entered and left, as the id says
	BodyRV                       uint64 // the revision that the object itself names
	Stranger                     string // whom the object is, if it is not whom the attributes name
	Epoch                        int    // as the id says
	Run                          uint64 // as the id says: of a snapshot or a delivery on request
	At                           time.Time
	End                          int64             // where the next one begins, in a file
	Sum                          [sha256.Size]byte // of the data
	Canary                       bool              // the raw bytes hold a Secret's value
}

// The operations of events, as the wire names them.
const (
	opSnapshot = "snapshot"
	opAdded    = "added"
	opModified = "modified"
	opDeleted  = "deleted"
	opEntered  = "entered"
	opLeft     = "left"
	opBegin    = "begin"
	opSynced   = "synced"
	opGap      = "gap"
)

// opLost is no operation of informd: it marks where a destination lost all that it
// held, as a stream does that is deleted.
const opLost = "lost"

func (d *Delivery) control() bool {
	return d.Op == opBegin || d.Op == opSynced || d.Op == opGap || d.Op == opLost
}

// ends: a consumer no longer has the object.
func (d *Delivery) ends() bool { return d.Op == opDeleted || d.Op == opLeft }

func (d *Delivery) key() string { return objectKey(d.Target, d.Namespace, d.Name) }

// How much of a gap's range came out all the same, and why there is a gap.
const (
	recoveredKnown = "known"
	reasonTrimmed  = "trimmed"
	reasonRollback = "rollback"
	reasonJournal  = "journal"
	// reasonSelection: Namespaces changed while informd could not follow.
	reasonSelection = "selection"
)

// Sink is what one consumer received.
type Sink struct {
	Name string
	// Deliveries are in the order of the destination, repeats included.
	Deliveries []Delivery
	// Refused has the ids that the destination refused for good.
	Refused map[string]bool
	// Targets are those that informd was asked to watch.
	Targets map[string]bool
	// Unique: the destination promises to hold no id twice.
	Unique bool
	// Unchained: the events have neither ordinals nor previous revisions.
	Unchained bool
	// Base is the revision up to which only states count, for streams that do not
	// say themselves with synced records when their snapshot was complete.
	Base uint64
}

// Violation is one broken invariant.
type Violation struct {
	Invariant string // "I1" to "I22"
	Sink      string
	UID       string // empty if it is not about one object
	RV        uint64
	Text      string
}
