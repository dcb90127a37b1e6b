package chaos

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// matching adds an object with a state at each revision, of which those that are named match.
func (s *script) matching(uid, name string, matches []int, revisions ...int) {
	s.object(uid, name, revisions...)
	for i := range s.truth.Objects[uid].Revisions {
		r := &s.truth.Objects[uid].Revisions[i]
		r.Gate = r.Hash
		r.Matches = slices.Contains(matches, int(r.RV))
	}
}

// moves delivers how an object came to match, or stopped to.
func (s *script) moves(op, uid string, rv, cause uint64) {
	s.deliver(op, uid, rv)
	d := s.last()
	d.Cause, d.ID = cause, fmt.Sprintf("%s:%d:%s:%d", uid, rv, op, cause)
}

// newLabelled is an object that is created, stops to match, changes, matches again and is deleted.
func newLabelled() *script {
	s := newScript()
	everything, _ := labels.Parse("")
	s.truth.Rules = map[string]rule{target: {labels: everything}}
	s.truth.Objects, s.sink.Deliveries = map[string]*Object{}, nil
	s.control(Delivery{ID: "core/configmaps:10:synced", Op: opSynced, RV: 10})
	s.matching("u1", "a", []int{11, 12, 18}, 11, 12, 14, 16, 18, -20)
	s.matching("u2", "b", []int{21}, 21, 22, -24)
	s.deliver(opAdded, "u1", 11)
	s.deliver(opModified, "u1", 12)
	s.moves(opLeft, "u1", 14, 14)
	s.moves(opEntered, "u1", 18, 18)
	s.deliver(opDeleted, "u1", 20)
	s.deliver(opAdded, "u2", 21)
	s.moves(opLeft, "u2", 22, 22)
	return s
}

// newSpaced is an object in a namespace that matches from 13 to 15, and from 17 on.
func newSpaced() *script {
	s := newScript()
	everything, _ := labels.Parse("")
	s.truth.Rules = map[string]rule{target: {spaces: everything}}
	s.truth.Objects, s.sink.Deliveries = map[string]*Object{}, nil
	s.namespace(10, 13, 15, 17)
	s.control(Delivery{ID: "core/configmaps:10:synced", Op: opSynced, RV: 10})
	s.matching("u1", "a", []int{11, 12, 14, 16, 18}, 11, 12, 14, 16, 18)
	s.moves(opEntered, "u1", 12, 13)
	s.deliver(opModified, "u1", 14)
	s.moves(opLeft, "u1", 14, 15)
	s.moves(opEntered, "u1", 16, 17)
	s.deliver(opModified, "u1", 18)
	return s
}

// late adds an object that is delivered from its second revision on.
func (s *script) late() {
	s.matching("u3", "c", []int{30, 31}, 30, 31)
	s.deliver(opAdded, "u3", 31)
}

// namespace makes the history of the namespace: it matches after every second revision.
func (s *script) namespace(revisions ...int) {
	s.matching("n", "ns", []int{13, 17}, revisions...)
	s.truth.Objects["n"].Target = namespaceTarget()
}

// snapshotWithout delivers a snapshot after a loss of the journal that has no object.
func (s *script) snapshotWithout(from, to uint64) {
	s.bound(opBegin, from, 7)
	s.gap(0, to, "state", reasonJournal, 0)
	s.bound(opSynced, to, 7)
}

// newFiltered is an object of which the revisions 12 and 16 change nothing that counts.
func newFiltered() *script {
	s := newScript()
	s.truth.Rules = map[string]rule{target: {filters: true}}
	s.truth.Objects, s.sink.Deliveries = map[string]*Object{}, nil
	s.matching("u1", "a", []int{11, 12, 14, 16}, 11, 12, 14, 16)
	for i, gate := range []uint64{1, 1, 2, 2} {
		s.truth.Objects["u1"].Revisions[i].Gate = hashOf(gate)
	}
	s.control(Delivery{ID: "core/configmaps:10:synced", Op: opSynced, RV: 10})
	s.gated(opAdded, 11, 1)
	s.gated(opModified, 14, 2)
	return s
}

func (s *script) gated(op string, rv, gate uint64) {
	s.deliver(op, "u1", rv)
	s.last().Gate = hashOf(gate)
}

func TestCheckerFindsDefectsOfSelections(t *testing.T) {
	tests := map[string]struct {
		script func() *script
		defect func(s *script)
		want   []string
	}{
		"Labelled":      {newLabelled, func(*script) {}, nil},
		"LeftMissing":   {newLabelled, func(s *script) { s.remove("u2:22:left:22") }, []string{"I1", "I2", "I4"}},
		"LeftInBetween": {newLabelled, func(s *script) { s.remove("u1:14:left:14"); s.rechain() }, []string{"I2", "I3"}},
		"LeftInGap": {newLabelled, func(s *script) {
			s.remove("u1:14:left:14")
			s.sink.Deliveries[s.at("u1:18:entered:18")].Op = opModified
			s.sink.Deliveries[s.at("u1:18:entered:18")].Replay = true
			s.rechain()
			s.gap(13, 18, "state", "expired", 0)
		}, nil},
		"EnteredMissing": {newLabelled, func(s *script) { s.remove("u1:18:entered:18"); s.rechain() }, []string{"I2", "I3"}},
		"UnselectedState": {newLabelled, func(s *script) {
			s.deliver(opModified, "u1", 16)
			s.move(s.at("u1:18:entered:18"))
		}, []string{"I20", "I3", "I3"}},
		"DeletedForLeft": {newLabelled, func(s *script) {
			d := &s.sink.Deliveries[s.at("u2:22:left:22")]
			d.Op, d.ID, d.Final, d.HasObject = opDeleted, "u2:deleted", true, true
		}, []string{"I5"}},
		"DeletedForLeftByThePresent": {newLabelled, func(s *script) {
			d := &s.sink.Deliveries[s.at("u2:22:left:22")]
			d.Op, d.ID, d.Replay = opDeleted, "u2:deleted", true
		}, nil},
		"DeletedForLeftBeforeItWasDeleted": {newLabelled, func(s *script) {
			d := &s.sink.Deliveries[s.at("u2:22:left:22")]
			d.Op, d.ID, d.Replay, d.At = opDeleted, "u2:deleted", true, time.Unix(1000, 0)
			s.truth.Objects["u2"].Revisions[2].Seen = d.At.Add(time.Minute)
		}, []string{"I5"}},
		"DeletedForModifiedByThePresent": {newLabelled, func(s *script) {
			s.remove("u2:22:left:22")
			s.deliver(opDeleted, "u2", 21)
			s.sink.Deliveries[s.at("u2:deleted")].Replay = true
		}, []string{"I2", "I3", "I5"}},
		"LeftForUndoneDeletionByThePresent": {newLabelled, func(s *script) {
			s.undoAfter(23)
			s.remove("u2:22:left:22")
			s.moves(opLeft, "u2", 24, 24)
			d := &s.sink.Deliveries[s.at("u2:24:left:24")]
			d.Replay, d.HasObject = true, false
		}, nil},
		"LeftForUndoneDeletionWithAnObject": {newLabelled, func(s *script) {
			s.undoAfter(23)
			s.remove("u2:22:left:22")
			s.moves(opLeft, "u2", 24, 24)
			s.sink.Deliveries[s.at("u2:24:left:24")].Replay = true
		}, []string{"I5"}},
		"LeftForUndoneDeletion": {newLabelled, func(s *script) {
			s.undoAfter(23)
			s.remove("u2:22:left:22")
			s.moves(opLeft, "u2", 24, 24)
		}, []string{"I5"}},
		"AddedForEntered": {newLabelled, func(s *script) { s.sink.Deliveries[s.at("u1:18:entered:18")].Op = opAdded }, []string{"I20", "I3"}},
		"AddedAfterAGap": {newLabelled, func(s *script) {
			s.late()
			s.gap(29, 30, "state", "expired", 0)
		}, nil},
		"AddedLate": {newLabelled, func(s *script) { s.late() }, []string{"I2", "I20"}},
		"LeftWithoutSelector": {newLabelled, func(s *script) {
			s.truth.Rules = nil
			s.matching("u1", "a", nil, 11, 12, 14, 18, -20)
			s.matching("u2", "b", nil, 21, -24)
			s.remove("u2:22:left:22")
			s.deliver(opDeleted, "u2", 24)
		}, []string{"I2", "I20", "I20"}},

		"Spaced": {newSpaced, func(*script) {}, nil},
		"NotEntered": {newSpaced, func(s *script) {
			s.sink.Deliveries = s.sink.Deliveries[:s.at("u1:16:entered:17")]
		}, []string{"I1", "I2", "I2"}},
		"StateMissing": {newSpaced, func(s *script) { s.remove("u1:14"); s.rechain() }, []string{"I2"}},
		"MatchedUnnoticed": {newSpaced, func(s *script) {
			s.sink.Deliveries = slices.Delete(s.sink.Deliveries, 1, 4)
			s.rechain()
		}, nil},
		"ShownByAListOnly": {newSpaced, func(s *script) {
			s.sink.Deliveries = s.sink.Deliveries[:1]
			s.namespace(10, 13, 15)
			s.matching("u1", "a", []int{11, 12, 14}, 11, 12, 14)
			s.moves(opEntered, "u1", 14, 14) // not 13, at which the namespace came to match
			s.gap(14, 16, "state", reasonSelection, 0)
		}, nil},
		"NotLeft":          {newSpaced, func(s *script) { s.remove("u1:14:left:15"); s.rechain() }, []string{"I3"}},
		"WrongCause":       {newSpaced, func(s *script) { s.sink.Deliveries[s.at("u1:16:entered:17")].Cause = 16 }, []string{"I20"}},
		"NoLongerSelected": {newSpaced, func(s *script) { s.namespace(10, 13, 15, 17, 19) }, []string{"I1"}},
		"DroppedWithAGap": {newSpaced, func(s *script) {
			s.namespace(10, 13, 15, 17, 19)
			s.gap(18, 20, "state", reasonSelection, 0)
		}, nil},
		"SnapshotBeforeTheNamespaceIsNoticed": {newSpaced, func(s *script) {
			s.sink.Deliveries = s.sink.Deliveries[:s.at("u1:14:left:15")] // the journal has lost the rest
			s.snapshotWithout(16, 17)
			s.moves(opEntered, "u1", 16, 17)
			s.deliver(opModified, "u1", 18)
		}, nil},
		"SnapshotLacksAnObjectThatStays": {newSpaced, func(s *script) {
			s.snapshotWithout(18, 19)
			s.deliver(opSnapshot, "u1", 18)
			s.run(8)
		}, []string{"I15"}},
		"DeletedUnselected": {newSpaced, func(s *script) {
			s.sink.Deliveries = s.sink.Deliveries[:s.at("u1:16:entered:17")]
			s.namespace(10, 13, 15)
			s.matching("u1", "a", []int{11, 12, 14}, 11, 12, 14, -16)
		}, nil},

		"Filtered":       {newFiltered, func(*script) {}, nil},
		"ChangeMissing":  {newFiltered, func(s *script) { s.remove("u1:14") }, []string{"I1", "I2", "I2"}},
		"UnchangedEvent": {newFiltered, func(s *script) { s.gated(opModified, 16, 2) }, []string{"I20"}},
		"UnchangedInASnapshot": {newFiltered, func(s *script) {
			s.bound(opBegin, 16, 7)
			s.gated(opSnapshot, 16, 2)
			s.run(7)
			s.bound(opSynced, 16, 7)
		}, nil},
		"ChangeLostInAGap": {newFiltered, func(s *script) {
			s.remove("u1:14")
			s.gap(12, 15, "state", "expired", 0)
		}, []string{"I1", "I2"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test.script().expect(t, test.defect, test.want) })
	}
}

// move takes the last event to a place before.
func (s *script) move(to int) {
	n := len(s.sink.Deliveries) - 1
	d := s.sink.Deliveries[n]
	s.sink.Deliveries = slices.Insert(s.sink.Deliveries[:n], to, d)
	s.rechain()
}
