package dynwatch

import (
	"testing"

	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
)

// TestStarted: a target that replaces another one of its name has another start time, also
// while the counts of both are equal.
func TestStarted(t *testing.T) {
	s := target.Spec{Version: "v1", Resource: "pods"}
	first, second := status.New(s.Version), status.New(s.Version)
	was := statusOf(s, first)
	first.Set(Live, "")
	switch now := statusOf(s, first); {
	case was.Started.IsZero() || !now.Started.Equal(was.Started):
		t.Errorf("the start time of one target is %v, then %v", was.Started, now.Started)
	case statusOf(s, second).Started.Equal(was.Started):
		t.Errorf("two targets have the start time %v", was.Started)
	}
}
