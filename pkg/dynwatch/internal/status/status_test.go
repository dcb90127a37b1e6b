package status_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
)

// TestState: a target that is live lacks no permission, and the time of a state is that of its
// beginning.
func TestState(t *testing.T) {
	s := status.New("v1")
	if !s.SetMissing([]string{"watch"}) {
		t.Error("a missing permission is not reported")
	}
	s.Set(status.Stale, "a")
	since := s.Shown().Since
	if s.Set(status.Stale, "b"); !s.Shown().Since.Equal(since) || s.Shown().Reason != "b" {
		t.Errorf("another reason began another state: %+v", s.Shown())
	}
	s.Set(status.Live, "")
	if s.SetMissing([]string{"watch"}) || s.Shown().MissingVerbs != nil {
		t.Errorf("a live target lacks %v", s.Shown().MissingVerbs)
	}
}

func TestCounters(t *testing.T) {
	s := status.New("v1")
	if !s.Progress().IsZero() || !s.BlockedSince().IsZero() || s.Beat().IsZero() {
		t.Errorf("a new target: progress %v, blocked since %v, beat %v", s.Progress(), s.BlockedSince(), s.Beat())
	}
	gap := event.Event{Op: event.Gap, Gap: &event.GapInfo{Reason: "expired"}}
	s.Appended([]event.Event{{Op: event.Added}, {Op: event.Added}, gap})
	s.Block()
	events, _ := s.Events()
	if events[event.Added] != 2 || events[event.Gap] != 1 || events[event.Deleted] != 0 {
		t.Errorf("events: %v", events)
	}
	if diff := cmp.Diff(map[string]uint64{"expired": 1}, s.Shown().Gaps); diff != "" {
		t.Error(diff)
	}
	if s.BlockedSince().IsZero() {
		t.Error("a blocked target is not shown as blocked")
	}
	if s.Unblock(); !s.BlockedSince().IsZero() {
		t.Error("a target is shown as blocked that is not")
	}
	s.AuditDone(0)
	s.AuditDone(2)
	if audits, divergences, last := s.Audits(); audits != 2 || divergences != 2 || last.IsZero() {
		t.Errorf("%d audits, %d divergences, the last at %v", audits, divergences, last)
	}
}

// TestShownIsACopy: readers may keep and change it.
func TestShownIsACopy(t *testing.T) {
	s := status.New("v1")
	for i := range status.KeptMismatches + 5 {
		s.Mismatch(status.Mismatch{Revision: uint64(i), At: time.Unix(1, 0)})
	}
	shown := s.Shown()
	if shown.Mismatched != status.KeptMismatches+5 || len(shown.Mismatches) != status.KeptMismatches || shown.Mismatches[0].Revision != 5 {
		t.Errorf("%d mismatches, of which %d are kept from %d", shown.Mismatched, len(shown.Mismatches), shown.Mismatches[0].Revision)
	}
	shown.Mismatches[0].Revision = 1000
	if s.Shown().Mismatches[0].Revision != 5 {
		t.Error("a reader changed the status")
	}
}
