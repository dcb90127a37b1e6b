package chaos

import "testing"

// The journal or a destination has lost events, and says so.
func TestCheckerFindsDefectsAfterALoss(t *testing.T) {
	findDefects(t, map[string]defect{
		"LostAndAnnouncedAgain": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24) // the stream was deleted before that was read
			s.object("u3", "b", 16, 20, 22, 23)  // and before this
			s.control(Delivery{ID: "lost", Op: opLost})
			s.bound(opBegin, 25, 7)
			s.deliver(opSnapshot, "u3", 23)
			s.run(7)
			s.last().Ordinal = 4
			s.bound(opSynced, 25, 7)
		}, nil},
		"LostAndOvertaken": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24)
			s.object("u3", "b", 16, 20, 22, 28) // at 22 when the snapshot began
			s.control(Delivery{ID: "lost", Op: opLost})
			s.bound(opBegin, 25, 7)
			s.deliver(opModified, "u3", 28)
			s.follows(4, 22)
			s.bound(opSynced, 25, 7)
		}, nil},
		"LostAndOvertakenTooLate": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24)
			s.object("u3", "b", 16, 20, 22, 28)
			s.control(Delivery{ID: "lost", Op: opLost})
			s.bound(opBegin, 25, 7)
			s.bound(opSynced, 25, 7)
			s.deliver(opModified, "u3", 28)
			s.follows(4, 22)
		}, []string{"I15", "I2"}},
		"JournalLost": {func(s *script) {
			// Deleted, and taken over by another object, while no process knew them any more.
			s.object("u1", "a", 10, 12, 14, -24)
			s.object("u6", "a", 25)
			s.gap(20, 26, "state", reasonJournal, 0)
			s.bound(opBegin, 26, 7)
			s.deliver(opSnapshot, "u6", 25)
			s.run(7)
			s.deliver(opSnapshot, "u3", 20)
			s.run(7)
			s.follows(1, 0)
			s.bound(opSynced, 26, 7)
		}, nil},
		"JournalLostDeclaredInTheSnapshot": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24)
			s.object("u6", "a", 25)
			s.bound(opBegin, 26, 7)
			s.deliver(opSnapshot, "u6", 25)
			s.run(7)
			s.again("u3:20", 7)
			s.gap(20, 26, "state", reasonJournal, 0)
			s.bound(opSynced, 26, 7)
		}, nil},
		"SinkRefilledInTheSnapshot": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24)
			s.object("u6", "a", 25)
			s.bound(opBegin, 26, 7)
			s.again("u3:20", 7)
			s.last().Ordinal = 1
			s.deliver(opSnapshot, "u6", 25)
			s.run(7)
			for _, op := range []string{opBegin, opSynced} {
				if s.bound(op, 26, 8); op == opBegin {
					s.again("u3:20", 8)
					s.last().Ordinal = 2
					s.deliver(opSnapshot, "u6", 25)
					s.run(8)
					s.follows(2, 25)
				}
				s.last().Replay = true
			}
			s.gap(20, 26, "state", reasonJournal, 0)
			s.bound(opSynced, 26, 7)
		}, nil},
		"RepeatedAfterALossOfTheJournal": {func(s *script) {
			s.sink.Deliveries = append(s.sink.Deliveries, s.sink.Deliveries[s.at("u3:16")], s.sink.Deliveries[s.at("u3:20")])
			s.bound(opBegin, 26, 7)
			s.again("u1:14", 7)
			s.again("u3:20", 7)
			s.gap(20, 26, "state", reasonJournal, 0)
			s.bound(opSynced, 26, 7)
		}, nil},
		"RepeatedLongBeforeALossOfTheJournal": {func(s *script) {
			s.sink.Deliveries = append(s.sink.Deliveries, s.sink.Deliveries[s.at("u3:20")])
			for run := uint64(7); run < 9; run++ {
				s.bound(opBegin, 26, run)
				s.again("u1:14", run)
				s.again("u3:20", run)
				if run == 8 {
					s.gap(20, 26, "state", reasonJournal, 0)
				}
				s.bound(opSynced, 26, run)
			}
		}, []string{"I6"}},
		"JournalLostAgainInTheSnapshot": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24)
			s.object("u6", "a", 25)
			for run := uint64(7); run < 9; run++ { // the second process knows nothing of the first one's
				s.bound(opBegin, 26, run)
				s.again("u3:20", run)
				s.last().Ordinal = 1
				if run == 7 {
					s.deliver(opDeleted, "u1", 24)
					s.follows(2, 10)
				}
			}
			s.deliver(opSnapshot, "u6", 25)
			s.run(8)
			s.gap(20, 26, "state", reasonJournal, 0)
			s.bound(opSynced, 26, 8)
		}, nil},
		"RewoundAfterALossOfTheJournal": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24)
			s.object("u6", "a", 25)
			s.bound(opBegin, 26, 7)
			s.deliver(opSnapshot, "u6", 25)
			s.run(7)
			s.again("u3:20", 7)
			s.gap(20, 26, "state", reasonJournal, 0)
			s.bound(opSynced, 26, 7)
			for _, id := range []string{"u2:11", "u2:deleted", "u3:16", "u3:20"} {
				s.again(id, 9)
			}
		}, nil},
		"ChangesLostInAGap": {func(s *script) { // by a power loss
			s.object("u1", "a", 10, 12, 14, -24)
			s.ended1(3, 12)
			s.gap(12, 30, "partial", "expired", 0)
		}, nil},
		"ChangesLostWithoutAGap": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24)
			s.ended1(3, 12)
		}, []string{"I12"}},
		"RowLostInAGap": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24)
			s.sink.Deliveries[s.at("u1:14")].Replay = true
			s.ended1(3, 12)
			s.gap(12, 30, "partial", "expired", 0)
		}, []string{"I12"}},
		"DeletedAgainAfterALossOfTheJournal": {func(s *script) {
			s.deletedAgain(reasonJournal)
		}, nil},
		"DeletedAgainWithoutALossOfTheJournal": {func(s *script) {
			s.deletedAgain("expired")
		}, []string{"I6", "I6"}},
		"DeletionRepeatedAfterALossOfTheJournal": {func(s *script) {
			s.deletedAgain(reasonJournal)
			s.sink.Unique = false
			s.sink.Deliveries = append(s.sink.Deliveries, s.sink.Deliveries[s.at("u6:30")-1], *s.last())
		}, nil},
		"JournalLostUndeclared": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24)
			s.object("u6", "a", 25)
			s.bound(opBegin, 26, 7)
			s.deliver(opSnapshot, "u6", 25)
			s.run(7)
			s.again("u3:20", 7)
			s.bound(opSynced, 26, 7)
		}, []string{"I3", "I4"}},
		"LostForGood": {func(s *script) {
			s.object("u1", "a", 10, 12, 14, -24)
			s.object("u3", "b", 16, 20, 22, 23)
			s.control(Delivery{ID: "lost", Op: opLost})
		}, []string{"I1", "I1", "I2", "I2", "I4"}},
	})
}

// deletedAgain has u1 deleted, brought back by a restore of which the journal loses all, and deleted with the same id.
// Then another object takes its name.
func (s *script) deletedAgain(reason string) {
	s.object("u1", "a", 10, 12, 14, -24, -28)
	s.truth.Objects["u1"].Revisions[3].Undone = true
	s.deliver(opDeleted, "u1", 24)
	s.bound(opBegin, 26, 7)
	s.again("u1:14", 7)
	s.again("u3:20", 7)
	s.gap(20, 26, "state", reason, 0)
	s.bound(opSynced, 26, 7)
	s.deliver(opDeleted, "u1", 28)
	s.follows(4, 14)
	s.object("u6", "a", 30)
	s.deliver(opAdded, "u6", 30)
}

// ended1 delivers the deletion of u1, found by a list, with an ordinal and the revision before.
func (s *script) ended1(ordinal, prev uint64) {
	s.deliver(opDeleted, "u1", 24)
	d := s.last()
	d.Ordinal, d.PrevRV, d.Replay = ordinal, prev, true
}
