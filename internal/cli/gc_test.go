package cli

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// TestLimitGarbage: the more lives, the less garbage in percent of it, between the bounds.
func TestLimitGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	limitGarbage()
	for _, test := range []struct {
		live        int
		least, most uint64
	}{{40 << 20, 11, 20}, {120 << 20, gcLeast, gcLeast}, {0, 21, gcMost}} {
		live, now := make([]byte, test.live), []metrics.Sample{{Name: "/gc/gogc:percent"}}
		in := func() bool {
			metrics.Read(now)
			return now[0].Value.Uint64() >= test.least && now[0].Value.Uint64() <= test.most
		}
		for end := time.Now().Add(10 * time.Second); !in() && time.Now().Before(end); {
			runtime.GC()
		}
		if !in() {
			t.Errorf("with %d MiB more: %d percent, want %d to %d", test.live>>20, now[0].Value.Uint64(), test.least, test.most)
		}
		runtime.KeepAlive(live)
	}
}
