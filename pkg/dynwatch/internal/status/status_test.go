package status_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
)

// TestState: what permissions a target lacks is news once. One that is live lacks none, and the time of a state is that of its
// beginning.
func TestState(t *testing.T) {
	s := status.New("v1")
	if !s.SetMissing([]string{"watch"}) {
		t.Error("a missing permission is not reported")
	}
	if s.SetMissing([]string{"watch"}) {
		t.Error("a missing permission is reported again")
	}
	s.Set(status.Stale, "a")
	since := s.Shown().Since
	if s.Set(status.Stale, "b"); !s.Shown().Since.Equal(since) || s.Shown().Reason != "b" {
		t.Errorf("another reason began another state: %+v", s.Shown())
	}
	if s.Set(status.Live, ""); s.Shown().MissingVerbs != nil {
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
	s.Appended([]event.Event{{Op: event.Gap, Gap: &event.GapInfo{Reason: "expired"}}})
	s.Shown().Gaps["expired"] = 1000
	if got := s.Shown().Gaps["expired"]; got != 1 {
		t.Errorf("a reader changed the status: %d gaps", got)
	}
}
