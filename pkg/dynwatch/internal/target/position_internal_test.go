package target

import (
	"testing"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// TestUnprovenStream: a gap begins where lists or frames have proven the stream last,
// however far the position has moved without them.
func TestUnprovenStream(t *testing.T) {
	var p position
	p.rv = 100
	if got := p.provenSince(); got != 100 {
		t.Errorf("a position that a frame brought is unproven since %d", got)
	}
	p.moveWithoutFrame(false)
	p.rv = 200
	p.moveWithoutFrame(false)
	p.rv = 300
	if got := p.provenSince(); got != 100 {
		t.Errorf("moved twice without a list: unproven since %d, want 100", got)
	}
	p.moveWithoutFrame(true)
	p.rv = 400
	if got := p.provenSince(); got != 400 {
		t.Errorf("a list has proven it: unproven since %d, want 400", got)
	}
}

// TestResume: objects of one lease are deleted at one revision. A watch that was cut among them
// begins before them, and those that were seen are known.
func TestResume(t *testing.T) {
	p := position{rv: 100, ended: map[string]uint64{index.Key("a", "x"): 90}}
	if got := p.resume(); got != 100 {
		t.Errorf("a watch begins at %d, want 100", got)
	}
	p.ended[index.Key("a", "y")] = 100
	if got := p.resume(); got != 99 {
		t.Errorf("after a deletion at the cursor, a watch begins at %d, want 99", got)
	}
	if got := p.endedAt("a", "y"); got != 100 {
		t.Errorf("the deletion is known at %d, want 100", got)
	}
	if p.forgetEnds(95); p.endedAt("a", "x") != 0 || p.endedAt("a", "y") != 100 {
		t.Errorf("deletions that are known after 95: %v", p.ended)
	}
}
