package dynwatch

import "testing"

// TestStarted: a target that replaces another one of its name has another start time, also
// while the counts of both are equal.
func TestStarted(t *testing.T) {
	s := spec{version: "v1", resource: "pods", mode: Full}
	first, second := newStatus(s), newStatus(s)
	was := first.snapshot()
	first.set(Live, "")
	switch now := first.snapshot(); {
	case was.Started.IsZero() || !now.Started.Equal(was.Started):
		t.Errorf("the start time of one target is %v, then %v", was.Started, now.Started)
	case second.snapshot().Started.Equal(was.Started):
		t.Errorf("two targets have the start time %v", was.Started)
	}
}
