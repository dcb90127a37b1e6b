package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Claim is what a stream may hold beside the live events of a watch. The zero
// value is the strictest: no gap, nothing found by comparison.
type Claim struct {
	// metadataOnly: no more than metadata is compared with the cluster.
	MetadataOnly bool
	// Outages are when history could get lost: gaps, and what a comparison found,
	// belong into one of them.
	Outages []Outage
	// lastStates: the journal has the last state of every object, so that deletions
	// come with one.
	LastStates bool
	// Versions are those in which the kind was served one after the other; empty: only
	// in the kind's own.
	Versions []string
}

// Outage is a stretch in which informd had no watch.
type Outage struct {
	// Before is the last revision that was delivered before it, by target.
	Before map[string]uint64
	// After is etcd's revision when informd was back.
	After uint64
	// whole: etcd has the history, so that a gap excuses no more than objects that
	// were born and died inside of it.
	Whole bool
	// Reason is that of the gaps; empty: expired.
	Reason string
}

// Check holds one kind's part of a stream against the ledger and the cluster:
// ids never repeated, operations, order and chains per object right, every
// revision once (but inside a declared gap), every deletion once, final states
// equal.
func Check(t *testing.T, k Kind, records []Record, l *Ledger, client dynamic.Interface, c Claim) {
	t.Helper()
	s := &streamCheck{
		t: t, kind: k, claim: c, ledger: l, ids: make(map[string]bool), last: make(map[string]Record), state: make(map[string]Record),
		seen: make(map[string][]uint64), ended: make(map[string]int),
	}
	for _, r := range records {
		if GroupOrCore(r.Group)+"/"+r.Resource == k.Target() {
			s.take(r)
		}
	}
	s.againstLedger()
	s.againstCluster(client)
}

type streamCheck struct {
	t      *testing.T
	kind   Kind
	claim  Claim
	ledger *Ledger
	ids    map[string]bool
	synced bool
	last   map[string]Record   // by uid
	state  map[string]Record   // by namespace/name
	seen   map[string][]uint64 // revisions by uid
	ended  map[string]int      // deletions by uid
	gaps   []Record
}

func (s *streamCheck) take(r Record) {
	s.t.Helper()
	if s.ids[r.ID] {
		s.t.Errorf("%s: id %s repeated", s.kind.Target(), r.ID)
	}
	s.ids[r.ID] = true
	if want := "dev.informd." + r.Op; r.Type != want {
		s.t.Errorf("%s: type %s, want %s", r.ID, r.Type, want)
	}
	switch r.Op {
	case "begin":
	case "synced":
		s.synced = true
	case "gap":
		s.takeGap(r)
	default:
		s.takeChange(r)
	}
}

// takeGap: a gap may only claim what an outage can have cost.
func (s *streamCheck) takeGap(r Record) {
	s.t.Helper()
	s.gaps = append(s.gaps, r)
	if r.FromRV >= r.ToRV {
		s.t.Errorf("%s: empty gap (%d, %d]", r.ID, r.FromRV, r.ToRV)
	}
	o, ok := s.outageOf(r)
	if !ok {
		s.t.Errorf("%s: gap (%d, %d] is not within an outage: %+v", r.ID, r.FromRV, r.ToRV, s.claim.Outages)
	}
	if known := r.Recovered == "known"; ok && (r.Reason != cmp.Or(o.Reason, "expired") || known != o.Whole) {
		s.t.Errorf("%s: gap of reason %s, recovered %s; etcd has all of its history: %t", r.ID, r.Reason, r.Recovered, o.Whole)
	}
}

// outageOf finds the outage that a gap lies in.
func (s *streamCheck) outageOf(gap Record) (Outage, bool) {
	for _, o := range s.claim.Outages {
		if o.Before[s.kind.Target()] <= gap.FromRV && gap.ToRV <= o.After {
			return o, true
		}
	}
	return Outage{}, false
}

func (s *streamCheck) takeChange(r Record) {
	s.t.Helper()
	prev := s.last[r.UID]
	s.checkOp(r, prev.Op)
	if r.PrevResourceVersion != prev.ResourceVersion || r.Ordinal != prev.Ordinal+1 {
		s.t.Errorf("%s: chain broken: says %d and %d after %d and %d", r.ID, r.PrevResourceVersion, r.Ordinal, prev.ResourceVersion, prev.Ordinal)
	}
	if r.ResourceVersion <= prev.ResourceVersion && !r.Reannounced() {
		s.t.Errorf("%s: revision went from %d to %d", r.ID, prev.ResourceVersion, r.ResourceVersion)
	}
	if r.Kind != s.kind.Kind || !slices.Contains(s.versions(), r.Version) {
		s.t.Errorf("%s: kind %s of version %s, want %s of %s", r.ID, r.Kind, r.Version, s.kind.Kind, s.versions())
	}
	s.checkBody(r)
	s.last[r.UID] = r
	key := r.Namespace + "/" + r.Name
	if old, ok := s.state[key]; ok && old.UID != r.UID {
		s.t.Errorf("%s while %s holds the name", r.ID, old.UID)
	}
	if r.Op == "deleted" {
		s.ended[r.UID]++
		delete(s.state, key)
		return
	}
	s.state[key] = r
	s.seen[r.UID] = append(s.seen[r.UID], r.ResourceVersion)
}

func (s *streamCheck) versions() []string {
	if len(s.claim.Versions) > 0 {
		return s.claim.Versions
	}
	return []string{s.kind.GVR.Version}
}

// checkOp: the operation must follow from what came before of the same uid, and
// a comparison can have found something only in an outage.
func (s *streamCheck) checkOp(r Record, prev string) {
	s.t.Helper()
	// Nobody is told twice that an object began, and its end is the end. One that
	// was born in a gap may begin with its end: the ledger has the last word there.
	allowed := []string{"modified", "deleted"}
	switch {
	case r.Reannounced() && prev != "" && prev != "deleted" && r.Replay:
		return // of the state before it, or the chain is broken
	case prev == "deleted":
		allowed = nil
	case prev == "" && s.synced:
		allowed = []string{"added", "deleted"}
	case prev == "":
		allowed = []string{"snapshot"}
	}
	if !slices.Contains(allowed, r.Op) {
		s.t.Errorf("%s: %s after %q (synced: %t), want one of %q", r.ID, r.Op, prev, s.synced, allowed)
	}
	inOutage := slices.ContainsFunc(s.claim.Outages, func(o Outage) bool {
		return o.Before[s.kind.Target()] < r.ResourceVersion && r.ResourceVersion <= o.After
	})
	if r.Replay && !inOutage {
		s.t.Errorf("%s: %s found by comparison, but revision %d is in no outage", r.ID, r.Op, r.ResourceVersion)
	}
}

// checkBody: the object in the data is the one that the attributes name, in the
// state that they name. That of a deletion found by comparison is in an earlier
// one, or, where nobody knows any, not there.
func (s *streamCheck) checkBody(r Record) {
	s.t.Helper()
	final := "absent"
	if r.Data.Final != nil {
		final = strconv.FormatBool(*r.Data.Final)
	}
	want := map[bool]string{true: "true", false: "absent"}[r.Op == "deleted"]
	found := r.Op == "deleted" && r.Replay
	if found {
		want = final // it says which of the two it is
	}
	if found && r.Data.Object == nil {
		if final != "false" || s.claim.LastStates {
			s.t.Errorf("%s: a deletion found by comparison without a state: final is %s", r.ID, final)
		}
		return
	}
	if final != want {
		s.t.Errorf("%s: %s with final %s, want %s", r.ID, r.Op, final, want)
	}
	var body metav1.PartialObjectMetadata
	if err := json.Unmarshal(r.Data.Object, &body); err != nil {
		s.t.Errorf("%s: %s with object %q: %v", r.ID, r.Op, r.Data.Object, err)
		return
	}
	if rv, err := strconv.ParseUint(body.ResourceVersion, 10, 64); found && err == nil && s.isLast(r, rv, final == "true") {
		body.ResourceVersion = strconv.FormatUint(r.ResourceVersion, 10)
	}
	got := []string{body.APIVersion, body.Kind, body.Namespace, body.Name, string(body.UID), body.ResourceVersion}
	attributes := []string{
		schema.GroupVersion{Group: r.Group, Version: r.Version}.String(), r.Kind, r.Namespace, r.Name, r.UID, strconv.FormatUint(r.ResourceVersion, 10),
	}
	if !slices.Equal(got, attributes) {
		s.t.Errorf("%s: the object is %q, the attributes say %q", r.ID, got, attributes)
	}
	for _, cut := range []string{"managedFields", "last-applied-configuration"} {
		if bytes.Contains(r.Data.Object, []byte(cut)) {
			s.t.Errorf("%s still has %s", r.ID, cut)
		}
	}
}

// isLast reports whether rv may be the revision of the state that a deletion found
// by comparison comes with: if it is final, the object's last one, else at least
// the last one that came out.
func (s *streamCheck) isLast(r Record, rv uint64, final bool) bool {
	written := s.ledger.Revisions[s.kind.Target()][r.UID]
	// The revision with which the API server marks a Pod is not in the ledger.
	if final && len(written) > 0 && s.kind.GVR.Resource != "pods" {
		return rv == slices.Max(written)
	}
	return s.last[r.UID].ResourceVersion <= rv && rv <= r.ResourceVersion
}

// excused reports whether a gap says that a revision of an object may be missing.
// No gap excuses what was delivered, or could have been, before its outage.
func (s *streamCheck) excused(uid string, rv uint64) bool {
	return slices.ContainsFunc(s.gaps, func(gap Record) bool {
		o, ok := s.outageOf(gap)
		if !ok || !InGap(gap, rv) || rv <= o.Before[s.kind.Target()] {
			return false
		}
		if gap.Recovered != "known" {
			return true
		}
		survived := slices.ContainsFunc(s.ledger.Revisions[s.kind.Target()][uid], func(rv uint64) bool { return !InGap(gap, rv) })
		return !survived && s.ledger.Deleted[s.kind.Target()][uid] && len(s.seen[uid]) == 0
	})
}

// InGap reports whether a gap covers a revision.
func InGap(gap Record, rv uint64) bool { return gap.FromRV < rv && rv <= gap.ToRV }

func (s *streamCheck) againstLedger() {
	s.t.Helper()
	revisions, deleted := s.ledger.Revisions[s.kind.Target()], s.ledger.Deleted[s.kind.Target()]
	for uid, want := range revisions {
		missing := slices.DeleteFunc(slices.Clone(want), func(rv uint64) bool { return slices.Contains(s.seen[uid], rv) || s.excused(uid, rv) })
		if len(missing) > 0 {
			s.t.Errorf("%s %s: revisions %v are missing and in no gap (got %v)", s.kind.Target(), uid, missing, s.seen[uid])
		}
		for _, rv := range s.seen[uid] {
			// Before it removes a Pod the API server marks it for deletion, a
			// revision that no answer to a write tells of.
			marked := deleted[uid] && s.kind.GVR.Resource == "pods" && rv > slices.Max(want) && rv == slices.Max(s.seen[uid])
			if !slices.Contains(want, rv) && !marked {
				s.t.Errorf("%s %s: revision %d was never written", s.kind.Target(), uid, rv)
			}
		}
		// Of what was born and died inside a gap nobody was told.
		if announced := len(s.seen[uid]) > 0; deleted[uid] && announced && s.ended[uid] != 1 {
			s.t.Errorf("%s %s: %d deletions, want 1", s.kind.Target(), uid, s.ended[uid])
		}
	}
	for uid, r := range s.last {
		if revisions[uid] == nil {
			s.t.Errorf("%s %s was never written", s.kind.Target(), r.ID)
		}
		if s.ended[uid] > 0 && !deleted[uid] {
			s.t.Errorf("%s %s was never deleted", s.kind.Target(), r.ID)
		}
	}
}

func (s *streamCheck) againstCluster(client dynamic.Interface) {
	s.t.Helper()
	list, err := client.Resource(s.kind.GVR).Namespace(s.kind.Namespace).List(context.Background(), metav1.ListOptions{})
	Must(s.t, err)
	want := make(map[string]any)
	for _, o := range list.Items {
		o.SetManagedFields(nil)
		annotations := o.GetAnnotations()
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		o.SetAnnotations(annotations)
		if s.claim.MetadataOnly {
			o.Object = map[string]any{"apiVersion": o.Object["apiVersion"], "kind": o.Object["kind"], "metadata": o.Object["metadata"]}
		}
		key := o.GetNamespace() + "/" + o.GetName()
		if len(s.claim.Versions) > 0 {
			o.SetAPIVersion(schema.GroupVersion{Group: s.kind.GVR.Group, Version: s.state[key].Version}.String())
		}
		want[key] = Normal(s.t, o.Object)
	}
	if got, expect := slices.Sorted(maps.Keys(s.state)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, expect) {
		s.t.Errorf("%s: objects at the end\ngot  %v\nwant %v", s.kind.Target(), got, expect)
	}
	for key, r := range s.state {
		if got := Normal(s.t, r.Data.Object); !reflect.DeepEqual(got, want[key]) {
			s.t.Errorf("%s %s: final state\ngot  %v\nwant %v", s.kind.Target(), key, got, want[key])
		}
	}
}

// Normal brings a value into the form that encoding/json decodes to.
func Normal(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	Must(t, err)
	var out any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		t.Fatal(fmt.Errorf("%w: %s", err, b))
	}
	return out
}

// Complete reports whether the stream has caught up with the ledger: the last
// revision of every living object, and the deletion of every dead one, but of
// those that lived and died inside a gap.
func Complete(kinds []Kind, records []Record, l *Ledger) bool {
	last := make(map[string]Record)
	gaps := make(map[string][]Record)
	for _, r := range records {
		target := GroupOrCore(r.Group) + "/" + r.Resource
		if r.Op == "gap" {
			gaps[target] = append(gaps[target], r)
		}
		if !r.Control() {
			last[r.UID] = r
		}
	}
	for _, k := range kinds {
		for uid, revisions := range l.Revisions[k.Target()] {
			r, announced := last[uid]
			unseen := func(rv uint64) bool {
				return !announced && slices.ContainsFunc(gaps[k.Target()], func(gap Record) bool { return InGap(gap, rv) })
			}
			switch {
			case !l.Deleted[k.Target()][uid]:
				if r.ResourceVersion != revisions[len(revisions)-1] {
					return false
				}
			case r.Op != "deleted" && slices.ContainsFunc(revisions, func(rv uint64) bool { return !unseen(rv) }):
				return false
			}
		}
	}
	return true
}
