package chaos

import (
	"fmt"
	"slices"
	"testing"
)

// The checker's own test: a sound history breaks nothing, and each defect breaks
// the one invariant that names it.

const target = "core/configmaps"

// script makes a truth and a sink that agree.
type script struct {
	truth Truth
	sink  Sink
}

func newScript() *script {
	s := &script{
		truth: Truth{Objects: make(map[string]*Object), Served: make(map[string][]uint64), Head: 100, Settled: 100},
		sink:  Sink{Name: "test", Refused: make(map[string]bool), Targets: map[string]bool{target: true}, Unique: true},
	}
	s.object("u1", "a", 10, 12, 14)
	s.object("u2", "b", 11, 13, -15)
	s.object("u3", "b", 16, 20)
	s.deliver("snapshot", "u1", 10)
	s.control(Delivery{ID: "core/configmaps:10:synced", Op: opSynced, RV: 10})
	s.deliver("added", "u2", 11)
	s.deliver("modified", "u1", 12)
	s.deliver("modified", "u2", 13)
	s.deliver("modified", "u1", 14)
	s.deliver("deleted", "u2", 15)
	s.deliver("added", "u3", 16)
	s.deliver("modified", "u3", 20)
	return s
}

func hashOf(rv uint64) Hash { return Hash{byte(rv), byte(rv >> 8)} }

// object adds an object to the truth; a negative revision is its deletion.
func (s *script) object(uid, name string, revisions ...int) {
	o := &Object{Target: target, Namespace: "ns", Name: name, UID: uid}
	var last Hash
	for _, rv := range revisions {
		if rv < 0 {
			o.Revisions = append(o.Revisions, Revision{RV: uint64(-rv), Deleted: true, Hash: last})
			continue
		}
		last = hashOf(uint64(rv))
		o.Revisions = append(o.Revisions, Revision{RV: uint64(rv), Hash: last})
	}
	s.truth.Objects[uid] = o
}

func (s *script) deliver(op, uid string, rv uint64) {
	o := s.truth.Objects[uid]
	d := Delivery{
		Op: op, Target: target, Namespace: o.Namespace, Name: o.Name, UID: uid, RV: rv,
		ID: fmt.Sprintf("%s:%d", uid, rv), HasObject: true, Hash: hashOf(rv), BodyRV: rv, Ordinal: 1,
	}
	for _, prev := range slices.Backward(s.sink.Deliveries) {
		if prev.UID == uid {
			d.PrevRV, d.Ordinal = prev.RV, prev.Ordinal+1
			break
		}
	}
	if op == opDeleted {
		d.ID, d.Final = uid+":deleted", true
		i := slices.IndexFunc(o.Revisions, func(r Revision) bool { return r.Deleted })
		d.Hash = o.Revisions[i].Hash
	}
	s.sink.Deliveries = append(s.sink.Deliveries, d)
}

func (s *script) control(d Delivery) {
	d.Target = target
	s.sink.Deliveries = append(s.sink.Deliveries, d)
}

func (s *script) gap(from, to uint64, recovered, reason string, trimmed uint64) {
	s.control(Delivery{ID: "gap", Op: opGap, FromRV: from, ToRV: to, RV: to, Recovered: recovered, Reason: reason, Trimmed: trimmed})
}

func (s *script) at(id string) int {
	return slices.IndexFunc(s.sink.Deliveries, func(d Delivery) bool { return d.ID == id })
}

// remove takes an event out. The ones after it keep what they say of it.
func (s *script) remove(id string) {
	i := s.at(id)
	s.sink.Deliveries = slices.Delete(s.sink.Deliveries, i, i+1)
}

// rechain makes ordinals and previous revisions what they are if the events that
// are there are all that were ever journaled.
func (s *script) rechain() {
	last := make(map[string]Delivery)
	for i := range s.sink.Deliveries {
		d := &s.sink.Deliveries[i]
		if !d.control() {
			d.PrevRV, d.Ordinal = last[d.UID].RV, last[d.UID].Ordinal+1
			last[d.UID] = *d
		}
	}
}

func TestCheckerFindsDefects(t *testing.T) {
	findDefects(t, map[string]defect{
		"Sound": {func(*script) {}, nil},
		"LastStateMissing": {func(s *script) {
			s.remove("u3:20")
			s.gap(16, 30, "state", "expired", 0)
		}, []string{"I1", "I2"}}, // no gap excuses a last state
		"LivesButEnded": {func(s *script) {
			s.object("u4", "d", 30, 31)
			s.deliver("added", "u4", 30)
		}, []string{"I1", "I2"}},
		"NeverDelivered": {func(s *script) { s.object("u4", "d", 30) }, []string{"I1", "I2"}},
		"MiddleMissing": {func(s *script) {
			s.remove("u1:12")
			s.rechain()
		}, []string{"I2"}},
		"MiddleMissingInGap": {func(s *script) {
			s.remove("u1:12")
			s.rechain()
			s.gap(11, 12, "state", "expired", 0)
		}, nil},
		"MiddleMissingBesideGap": {func(s *script) {
			s.remove("u1:12")
			s.rechain()
			s.gap(12, 13, "state", "expired", 0)
		}, []string{"I2"}},
		"MiddleMissingInKnownGap": {func(s *script) {
			s.remove("u1:12")
			s.rechain()
			s.gap(11, 12, recoveredKnown, "expired", 0)
		}, []string{"I2"}},
		"BornAndDeadInKnownGap": {func(s *script) {
			s.object("u4", "d", 30, 31, -32)
			s.gap(29, 32, recoveredKnown, "expired", 0)
		}, nil},
		"BornAndDeadUndeclared": {func(s *script) { s.object("u4", "d", 30, -32) }, []string{"I2"}},
		"BornAndDeadBeforeSync": {func(s *script) { s.object("u4", "d", 3, 4, -5) }, nil},
		"ChangedBeforeSync": {func(s *script) {
			s.truth.Objects["u1"].Revisions = slices.Insert(s.truth.Objects["u1"].Revisions, 0, Revision{RV: 5})
		}, nil},
		"SnapshotMissesAnObject": {func(s *script) { s.object("u4", "d", 3) }, []string{"I1", "I2"}},
		"ServedLater": {func(s *script) {
			s.truth.Served[target] = []uint64{1, 40}
			s.object("u4", "d", 41, 42, -43)
			s.control(Delivery{ID: "again", Op: opSynced, RV: 50})
		}, nil},
		"LostAfterServedLater": {func(s *script) {
			s.truth.Served[target] = []uint64{1, 40}
			s.object("u4", "d", 51, -52)
			s.control(Delivery{ID: "again", Op: opSynced, RV: 50})
		}, []string{"I2"}},
		"Trimmed": {func(s *script) {
			s.remove("u1:12")
			s.gap(0, 0, "state", reasonTrimmed, 1)
		}, nil},
		"TrimmedMoreThanCounted": {func(s *script) {
			s.remove("u1:12")
			s.remove("u2:13")
			s.gap(0, 0, "state", reasonTrimmed, 1)
		}, []string{"I2"}},
		"TrimmedDeletion": {func(s *script) {
			s.remove("u2:deleted") // the name goes on as another object's
			s.gap(0, 0, "state", reasonTrimmed, 1)
		}, []string{"I3", "I4"}},
		"SwappedRevisions": {func(s *script) {
			i, j := s.at("u1:12"), s.at("u1:14")
			s.sink.Deliveries[i], s.sink.Deliveries[j] = s.sink.Deliveries[j], s.sink.Deliveries[i]
			s.rechain()
			s.deliver("modified", "u1", 14) // so that the end is right
			s.sink.Unique = false
		}, []string{"I3", "I6"}},
		"EventAfterItsDeletion": {func(s *script) {
			i := s.at("u2:deleted")
			d := s.sink.Deliveries[s.at("u2:13")]
			s.remove("u2:13")
			s.sink.Deliveries = slices.Insert(s.sink.Deliveries, i, d)
			s.rechain()
		}, []string{"I3"}},
		"NameTakenTwice": {func(s *script) {
			d := s.sink.Deliveries[s.at("u2:deleted")]
			s.remove("u2:deleted")
			s.sink.Deliveries = slices.Insert(s.sink.Deliveries, s.at("u3:16")+1, d)
			s.rechain()
		}, []string{"I3"}},
		"DeletionMissing": {func(s *script) {
			s.truth.Objects["u1"].Revisions = append(s.truth.Objects["u1"].Revisions, Revision{RV: 40, Deleted: true})
		}, []string{"I1", "I4"}},
		"DeletionMissingBehindSuccessor": {func(s *script) {
			s.remove("u2:deleted")
		}, []string{"I3", "I4"}},
		"UnknownUID": {func(s *script) {
			o := *s.truth.Objects["u3"]
			s.truth.Objects["u9"] = &o
			s.deliver("added", "u9", 10)
			delete(s.truth.Objects, "u9")
			d := s.last()
			d.UID, d.Name = "u9", "phantom"
		}, []string{"I5"}},
		"UnknownRevision": {func(s *script) {
			s.deliver("modified", "u2", 14)
			d := *s.last()
			s.sink.Deliveries = slices.Insert(s.sink.Deliveries[:len(s.sink.Deliveries)-1], s.at("u2:deleted"), d)
			s.rechain()
		}, []string{"I5"}},
		"WrongContent":  {func(s *script) { s.sink.Deliveries[s.at("u1:12")].Hash[0]++ }, []string{"I5"}},
		"WrongBody":     {func(s *script) { s.sink.Deliveries[s.at("u1:12")].BodyRV++ }, []string{"I5"}},
		"OtherObject":   {func(s *script) { s.sink.Deliveries[s.at("u1:12")].Stranger = "a/b of uid u9" }, []string{"I5"}},
		"WrongLastBody": {func(s *script) { s.sink.Deliveries[s.at("u2:deleted")].Hash[0]++ }, []string{"I5"}},
		"PhantomDeletion": {func(s *script) {
			s.deliver("modified", "u1", 14)
			d := s.last()
			d.Op, d.ID, d.RV, d.BodyRV, d.Replay = opDeleted, "u1:deleted", 30, 30, true
		}, []string{"I1", "I5"}},
		"ReplayedDeletion": {func(s *script) {
			d := &s.sink.Deliveries[s.at("u2:deleted")]
			d.Replay, d.RV, d.HasObject, d.Final = true, 18, false, false
		}, nil},
		"EarlyReplayedDeletion": {func(s *script) {
			d := &s.sink.Deliveries[s.at("u2:deleted")]
			d.Replay, d.RV, d.HasObject = true, 14, false
		}, []string{"I5"}},
		"RepeatedInJetStream": {func(s *script) {
			s.sink.Deliveries = append(s.sink.Deliveries, s.sink.Deliveries[s.at("u3:20")])
		}, []string{"I6"}},
		"RepeatedInFile": {func(s *script) {
			s.sink.Unique = false
			s.sink.Deliveries = append(s.sink.Deliveries, s.sink.Deliveries[s.at("u3:20")])
		}, nil},
		"RepeatedTooOftenInFile": {func(s *script) {
			s.sink.Unique = false
			for range 5 {
				s.sink.Deliveries = append(s.sink.Deliveries, s.sink.Deliveries[s.at("u3:20")])
			}
		}, []string{"I6"}},
		"RepeatedWithOtherContent": {func(s *script) {
			s.sink.Unique = false
			again := s.sink.Deliveries[s.at("u3:20")]
			again.Sum[0]++
			s.sink.Deliveries = append(s.sink.Deliveries, again)
		}, []string{"I6"}},
		"StaleRepeatAtTheEnd": {func(s *script) {
			s.sink.Unique = false
			s.sink.Deliveries = append(s.sink.Deliveries, s.sink.Deliveries[s.at("u1:12")])
		}, []string{"I1"}},
		"Canary":     {func(s *script) { s.sink.Deliveries[1].Canary = true }, []string{"I11"}},
		"TwoWriters": {func(s *script) { s.sink.Deliveries[s.at("u1:14")].Ordinal = 2 }, []string{"I12"}},
		"ChainNamesAnother": {
			func(s *script) { s.sink.Deliveries[s.at("u1:14")].PrevRV = 13 },
			[]string{"I14"},
		},
		"ChainJumps": {func(s *script) { s.sink.Deliveries[s.at("u1:14")].Ordinal = 7 }, []string{"I14"}},
		"Refused": {func(s *script) {
			s.remove("u1:12")
			s.sink.Refused["u1:12"] = true
		}, nil},
		"Rollback": {func(s *script) {
			// Restored to revision 13: what came after is undone, and 14 to 20 are
			// written again as something else.
			s.undoAfter(13)
			s.object("u5", "e", 14)
			s.truth.Objects["u5"].Revisions[0].Epoch = 1
			s.inEpoch("modified", "u1", 12, 1)
			s.ended("u3", 14)
			s.inEpoch("added", "u2", 13, 1)
			s.inEpoch("added", "u5", 14, 1)
			s.gap(20, 14, "state", reasonRollback, 0)
		}, nil},
		"Rewound": {func(s *script) {
			for _, id := range []string{"u1:12", "u2:deleted", "u3:16", "u3:20", "u1:14"} {
				s.again(id, 7)
			}
		}, nil},
		"RewoundToAnOldState": {func(s *script) { s.again("u1:12", 7) }, []string{"I1"}},
		"RewoundToAnInvention": {func(s *script) {
			s.again("u1:14", 7)
			s.last().Hash[0]++
		}, []string{"I5"}},
		"AnnouncedAgain": {func(s *script) {
			s.bound(opBegin, 25, 7)
			s.deliver(opSnapshot, "u1", 14)
			s.run(7)
			s.deliver(opSnapshot, "u3", 20)
			s.run(7)
			s.bound(opSynced, 25, 7)
		}, nil},
		"SnapshotLacksAnObject": {func(s *script) {
			s.bound(opBegin, 25, 7)
			s.deliver(opSnapshot, "u1", 14)
			s.run(7)
			s.bound(opSynced, 25, 7)
		}, []string{"I15"}},
		"SnapshotLacksADeletedObject": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24)
			s.bound(opBegin, 25, 7)
			s.again("u3:20", 7)
			s.bound(opSynced, 25, 7)
			s.deliver(opDeleted, "u1", 24)
		}, nil},
		"SnapshotWithoutBegin": {func(s *script) { s.bound(opSynced, 25, 7) }, []string{"I15"}},
		"RollbackUnnoticed": {func(s *script) {
			s.undoAfter(13)
		}, []string{"I1", "I1", "I4"}},
	})
}

// defect changes a script, and names the invariants that it breaks.
type defect struct {
	change func(s *script)
	want   []string
}

func findDefects(t *testing.T, tests map[string]defect) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { newScript().expect(t, test.change, test.want) })
	}
}

// expect holds the checker to the invariants that a change of the script breaks.
func (s *script) expect(t *testing.T, change func(s *script), want []string) {
	t.Helper()
	change(s)
	violations := check(&s.truth, &s.sink, Limits{Repeats: 3}).violations
	var got []string
	for _, v := range violations {
		got = append(got, v.Invariant)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("fired %v, want %v: %+v", got, want, violations)
	}
}

// last is the event that was delivered last.
func (s *script) last() *Delivery { return &s.sink.Deliveries[len(s.sink.Deliveries)-1] }

// follows makes the last event one with a number, after a revision.
func (s *script) follows(ordinal, prev uint64) {
	s.last().Ordinal, s.last().PrevRV = ordinal, prev
}

// again delivers an event once more, on request.
func (s *script) again(id string, run uint64) {
	s.sink.Deliveries = append(s.sink.Deliveries, s.sink.Deliveries[s.at(id)])
	s.run(run)
}

// run makes the last event part of a run.
func (s *script) run(run uint64) {
	d := s.last()
	d.Run = run
	d.ID += fmt.Sprintf(":r%d", run)
}

// bound delivers the begin or the end of a snapshot.
func (s *script) bound(op string, rv, run uint64) {
	s.control(Delivery{ID: fmt.Sprintf("%s:%d:%s:r%d", target, rv, op, run), Op: op, RV: rv, Run: run})
}

func (s *script) undoAfter(rv uint64) {
	for _, o := range s.truth.Objects {
		for i := range o.Revisions {
			o.Revisions[i].Undone = o.Revisions[i].RV > rv
		}
	}
}

// inEpoch delivers a revision, or another object's end, in a later epoch.
func (s *script) inEpoch(op, uid string, rv uint64, epoch int) {
	s.deliver(op, uid, rv)
	d := s.last()
	d.Epoch = epoch
	d.ID += ":e1"
}

// ended delivers the deletion of what a restore took back.
func (s *script) ended(uid string, rv uint64) {
	s.inEpoch("modified", uid, rv, 1)
	d := s.last()
	d.Op, d.ID, d.HasObject, d.Replay = opDeleted, uid+":deleted:e1", false, true
}
